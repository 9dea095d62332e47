module github.com/skydock/skydock/sdk/go/example

go 1.26

require github.com/skydock/skydock/sdk/go v0.1.0

replace github.com/skydock/skydock/sdk/go => ..
