package memory

import "github.com/skydock/skydock/sdk/go/internal/wit/runtime"

func init() { dataSize = int64(runtime.DataEnd()) }
