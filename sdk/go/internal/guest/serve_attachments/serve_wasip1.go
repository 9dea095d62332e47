// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package serve_attachments

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	witAttachments "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_attachments"
	witStorage "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_storage"
	witTypes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	guest "github.com/skydock/skydock/sdk/go/internal/guest"
	registry "github.com/skydock/skydock/sdk/go/internal/registry"
	wit "github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func served() skydock.Attachments {
	return registry.Served["attachments"].(skydock.Attachments)
}

func AttachVolumes(attachments []witAttachments.NewAttachment) wit.Result[[]wit.Result[[]wit.Tuple2[string, string], witStorage.StorageError], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) ([]wit.Result[[]wit.Tuple2[string, string], witStorage.StorageError], error) {
		found, err := served().AttachVolumes(ctx, guest.List(guest.NewAttachment)(attachments))
		return guest.StorageElements(ctx, s, len(attachments), found, guest.Pairs), err
	})
}

func DetachVolumes(attachments []witAttachments.Attachment) wit.Result[[]wit.Result[wit.Unit, witStorage.StorageError], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) ([]wit.Result[wit.Unit, witStorage.StorageError], error) {
		found, err := served().DetachVolumes(ctx, guest.List(guest.Attachment)(attachments))
		return guest.StorageErrors(ctx, s, len(attachments), found), err
	})
}
