// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package serve_volume_expansion

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	witStorage "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_storage"
	witTypes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	witVolumeExpansion "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_volume_expansion"
	guest "github.com/skydock/skydock/sdk/go/internal/guest"
	registry "github.com/skydock/skydock/sdk/go/internal/registry"
	wit "github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func served() skydock.VolumeExpansion {
	return registry.Served["volume-expansion"].(skydock.VolumeExpansion)
}

func ExpandVolumes(expansions []witVolumeExpansion.Expansion) wit.Result[[]wit.Result[uint64, witStorage.StorageError], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) ([]wit.Result[uint64, witStorage.StorageError], error) {
		found, err := served().ExpandVolumes(ctx, guest.List(guest.Expansion)(expansions))
		return guest.StorageElements(ctx, s, len(expansions), found, guest.Same[uint64]), err
	})
}
