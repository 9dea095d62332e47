// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package serve_snapshots

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	witSnapshots "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_snapshots"
	witStorage "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_storage"
	witTypes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	guest "github.com/skydock/skydock/sdk/go/internal/guest"
	registry "github.com/skydock/skydock/sdk/go/internal/registry"
	wit "github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func served() skydock.Snapshots {
	return registry.Served["snapshots"].(skydock.Snapshots)
}

func CreateSnapshots(snapshots []witSnapshots.NewSnapshot) wit.Result[[]wit.Result[witSnapshots.Snapshot, witStorage.StorageError], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) ([]wit.Result[witSnapshots.Snapshot, witStorage.StorageError], error) {
		found, err := served().CreateSnapshots(ctx, guest.List(guest.NewSnapshot)(snapshots))
		return guest.StorageElements(ctx, s, len(snapshots), found, s.Snapshot), err
	})
}

func GetSnapshots(ids []string) wit.Result[[]wit.Result[witSnapshots.Snapshot, witStorage.StorageError], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) ([]wit.Result[witSnapshots.Snapshot, witStorage.StorageError], error) {
		found, err := served().GetSnapshots(ctx, guest.List(guest.Clone)(ids))
		return guest.StorageElements(ctx, s, len(ids), found, s.Snapshot), err
	})
}

func ListSnapshots(page wit.Option[string]) wit.Result[witSnapshots.SnapshotPage, witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) (witSnapshots.SnapshotPage, error) {
		snapshots, next, err := served().ListSnapshots(ctx, guest.Option(guest.Clone)(page))
		return witSnapshots.SnapshotPage{Snapshots: guest.List(s.Snapshot)(snapshots), Next: guest.Optional(guest.Valid)(next)}, err
	})
}

func DeleteSnapshots(ids []string) wit.Result[[]wit.Result[wit.Unit, witStorage.StorageError], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) ([]wit.Result[wit.Unit, witStorage.StorageError], error) {
		found, err := served().DeleteSnapshots(ctx, guest.List(guest.Clone)(ids))
		return guest.StorageErrors(ctx, s, len(ids), found), err
	})
}
