module github.com/skydock/skydock/sdk/go

go 1.26
