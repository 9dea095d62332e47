package guest

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	storage "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_storage"
	"github.com/skydock/skydock/sdk/go/internal/call"
	"github.com/skydock/skydock/sdk/go/internal/wit/types"
)

// StorageError converts an error about a volume, an attachment or a snapshot for the host.
func StorageError(err error) storage.StorageError {
	e := call.Classify(context.Background(), err)
	text := shorten(Valid(e.Error()))
	switch e.Case {
	case skydock.ErrExists:
		return storage.MakeStorageErrorExists(text)
	case skydock.ErrExhausted:
		return storage.MakeStorageErrorExhausted(text)
	case skydock.ErrOutOfRange:
		return storage.MakeStorageErrorOutOfRange(text)
	case skydock.ErrInUse:
		return storage.MakeStorageErrorInUse(text)
	}
	return storage.MakeStorageErrorCloud(Error(err))
}

// StorageElements is [Elements] for volumes, attachments and snapshots.
func StorageElements[T, W any](ctx context.Context, s *Sent, length int, found []skydock.Result[T], convert func(T) W) []types.Result[W, storage.StorageError] {
	return elements(ctx, s, length, found, convert, StorageError)
}

// StorageErrors is [StorageElements] for answers without a value.
func StorageErrors(ctx context.Context, s *Sent, length int, errs []error) []types.Result[types.Unit, storage.StorageError] {
	return StorageElements(ctx, s, length, List(failed)(errs), Same[types.Unit])
}
