// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package serve_volume_attributes

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	witStorage "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_storage"
	witTypes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	witVolumeAttributes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_volume_attributes"
	guest "github.com/skydock/skydock/sdk/go/internal/guest"
	registry "github.com/skydock/skydock/sdk/go/internal/registry"
	wit "github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func served() skydock.VolumeAttributes {
	return registry.Served["volume-attributes"].(skydock.VolumeAttributes)
}

func ModifyVolumes(modifications []witVolumeAttributes.Modification) wit.Result[[]wit.Result[wit.Unit, witStorage.StorageError], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) ([]wit.Result[wit.Unit, witStorage.StorageError], error) {
		found, err := served().ModifyVolumes(ctx, guest.List(guest.Modification)(modifications))
		return guest.StorageErrors(ctx, s, len(modifications), found), err
	})
}
