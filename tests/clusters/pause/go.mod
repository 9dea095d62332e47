module github.com/skydock/skydock/tests/pause

go 1.26.0
