// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package serve_storage_capacity

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	witStorage "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_storage"
	witStorageCapacity "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_storage_capacity"
	witTypes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	guest "github.com/skydock/skydock/sdk/go/internal/guest"
	registry "github.com/skydock/skydock/sdk/go/internal/registry"
	wit "github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func served() skydock.StorageCapacity {
	return registry.Served["storage-capacity"].(skydock.StorageCapacity)
}

func GetCapacities(requests []witStorageCapacity.CapacityRequest) wit.Result[[]wit.Result[witStorageCapacity.Capacity, witStorage.StorageError], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) ([]wit.Result[witStorageCapacity.Capacity, witStorage.StorageError], error) {
		found, err := served().GetCapacities(ctx, guest.List(guest.CapacityRequest)(requests))
		return guest.StorageElements(ctx, s, len(requests), found, s.Capacity), err
	})
}
