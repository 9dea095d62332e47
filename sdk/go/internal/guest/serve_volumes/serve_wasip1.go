// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package serve_volumes

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	witStorage "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_storage"
	witTypes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	witVolumes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_volumes"
	guest "github.com/skydock/skydock/sdk/go/internal/guest"
	registry "github.com/skydock/skydock/sdk/go/internal/registry"
	wit "github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func served() skydock.Volumes {
	return registry.Served["volumes"].(skydock.Volumes)
}

func Driver() witVolumes.DriverInfo {
	s := new(guest.Sent)
	return s.DriverInfo(served().Driver())
}

func CreateVolumes(volumes []witVolumes.NewVolume) wit.Result[[]wit.Result[witVolumes.Volume, witStorage.StorageError], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) ([]wit.Result[witVolumes.Volume, witStorage.StorageError], error) {
		found, err := served().CreateVolumes(ctx, guest.List(guest.NewVolume)(volumes))
		return guest.StorageElements(ctx, s, len(volumes), found, s.Volume), err
	})
}

func GetVolumes(ids []string) wit.Result[[]wit.Result[witVolumes.Volume, witStorage.StorageError], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) ([]wit.Result[witVolumes.Volume, witStorage.StorageError], error) {
		found, err := served().GetVolumes(ctx, guest.List(guest.Clone)(ids))
		return guest.StorageElements(ctx, s, len(ids), found, s.Volume), err
	})
}

func ListVolumes(page wit.Option[string]) wit.Result[witVolumes.VolumePage, witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) (witVolumes.VolumePage, error) {
		volumes, next, err := served().ListVolumes(ctx, guest.Option(guest.Clone)(page))
		return witVolumes.VolumePage{Volumes: guest.List(s.Volume)(volumes), Next: guest.Optional(guest.Valid)(next)}, err
	})
}

func DeleteVolumes(ids []string) wit.Result[[]wit.Result[wit.Unit, witStorage.StorageError], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) ([]wit.Result[wit.Unit, witStorage.StorageError], error) {
		found, err := served().DeleteVolumes(ctx, guest.List(guest.Clone)(ids))
		return guest.StorageErrors(ctx, s, len(ids), found), err
	})
}
