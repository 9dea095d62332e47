package cloudprovider

import (
	"encoding/json"
	"io"
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watchBody is the body of a watch: changes as JSON, until it is closed or its request ends.
type watchBody struct {
	changes watch.Interface
	done    <-chan struct{}
	rest    []byte
}

// Read implements [io.Reader].
func (b *watchBody) Read(to []byte) (int, error) {
	for len(b.rest) == 0 {
		select {
		case <-b.done:
			b.changes.Stop()
			return 0, io.EOF
		case event, ok := <-b.changes.ResultChan():
			o, isObject := event.Object.(object)
			if !ok || !isObject {
				return 0, io.EOF
			}
			text, err := json.Marshal(map[string]any{"type": event.Type, "object": typed(o)})
			if err != nil {
				return 0, err
			}
			b.rest = append(text, '\n')
		}
	}
	n := copy(to, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close implements [io.Closer].
func (b *watchBody) Close() error {
	b.changes.Stop()
	return nil
}

// typed adds kind and version to an object.
func typed(o object) any {
	copied := o.DeepCopyObject()
	name := reflect.TypeOf(copied).Elem().Name()
	copied.GetObjectKind().SetGroupVersionKind(v1.SchemeGroupVersion.WithKind(name))
	return copied
}
