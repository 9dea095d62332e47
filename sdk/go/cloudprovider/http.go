package cloudprovider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	skydock "github.com/skydock/skydock/sdk/go"
)

type duration = time.Duration

// Kinds of objects that the host reads one by one.
var readable = map[string]string{"secrets": "v1/Secret", "configmaps": "v1/ConfigMap", "namespaces": "v1/Namespace"}

// RoundTrip implements [http.RoundTripper].
func (a *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if r.URL.Path == "/version" {
		return answer(r, http.StatusOK, map[string]string{"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
	}
	resource, namespace, name, sub := parse(r.URL.Path)
	stored := map[string]*store{"nodes": a.nodes, "services": a.services}[resource]
	full := name
	if namespace != "" {
		full = namespace + "/" + name
	}
	switch {
	case resource == "events":
		return a.event(r, name, body)
	case stored != nil && r.Method == http.MethodGet && name == "":
		return list(r, stored, resource, namespace)
	case stored != nil && sub == "" && r.Method == http.MethodGet:
		if o := stored.get(full); o != nil {
			return answer(r, http.StatusOK, typed(o))
		}
		return failure(r, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", resource, full))
	case stored != nil && sub == "" && (r.Method == http.MethodPatch || r.Method == http.MethodPut):
		return a.write(r, stored, full, body)
	case readable[resource] != "" && r.Method == http.MethodGet && name != "" && sub == "":
		return a.read(r, readable[resource], namespace, name)
	case readable[resource] != "" && r.Method == http.MethodGet:
		return list(r, newStore(), resource, namespace)
	}
	return failure(r, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("Skydock does not offer %s %s", r.Method, r.URL.Path))
}

// parse splits a path into its parts; everything but the resource may be empty.
func parse(path string) (resource, namespace, name, sub string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch parts[0] {
	case "api":
		parts = parts[min(2, len(parts)):]
	case "apis":
		parts = parts[min(3, len(parts)):]
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "", "")
	return parts[0], namespace, parts[1], parts[2]
}

// list answers a list or a watch.
func list(r *http.Request, s *store, resource, namespace string) (*http.Response, error) {
	query := r.URL.Query()
	if query.Get("sendInitialEvents") != "" {
		return failure(r, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is not supported")
	}
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return failure(r, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return failure(r, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	wanted := func(any runtime.Object) bool {
		o, ok := any.(object)
		return ok && (namespace == "" || o.GetNamespace() == namespace) && byLabel.Matches(labels.Set(o.GetLabels())) &&
			byField.Matches(fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()})
	}
	if watching, _ := strconv.ParseBool(query.Get("watch")); watching {
		changes, err := s.watch(query.Get("resourceVersion"), wanted)
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			return answer(r, int(status.Status().Code), status.Status())
		}
		response, err := answer(r, http.StatusOK, nil)
		response.Body, response.ContentLength = &watchBody{changes: changes, done: r.Context().Done()}, -1
		return response, err
	}
	objects, version := s.list()
	items := []any{}
	for _, o := range objects {
		if wanted(o) {
			items = append(items, o)
		}
	}
	kind := map[string]string{
		"nodes": "NodeList", "services": "ServiceList", "secrets": "SecretList", "configmaps": "ConfigMapList", "namespaces": "NamespaceList",
	}[resource]
	return answer(r, http.StatusOK, map[string]any{
		"kind": kind, "apiVersion": "v1", "metadata": map[string]string{"resourceVersion": number(version)}, "items": items,
	})
}

// event publishes an event. Only events about objects of the call reach the cluster.
func (a *apiServer) event(r *http.Request, name string, body []byte) (*http.Response, error) {
	event := &v1.Event{}
	a.mu.Lock()
	switch r.Method {
	case http.MethodPost:
		if err := json.Unmarshal(body, event); err != nil {
			a.mu.Unlock()
			return failure(r, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		}
		if len(a.events) > 200 {
			clear(a.events)
		}
		a.events[event.Name] = event
	case http.MethodPatch, http.MethodPut: // it happened again
		if a.events[name] == nil {
			a.mu.Unlock()
			return failure(r, http.StatusNotFound, metav1.StatusReasonNotFound, "the event is not known")
		}
		event = a.events[name]
	}
	host := a.host
	a.mu.Unlock()
	involved := event.InvolvedObject.Name
	if event.InvolvedObject.Namespace != "" && event.InvolvedObject.Kind != "Node" {
		involved = event.InvolvedObject.Namespace + "/" + involved
	}
	severity := skydock.Normal
	if event.Type == v1.EventTypeWarning {
		severity = skydock.Warning
	}
	host.Publish(involved, severity, event.Reason, event.Message)
	return answer(r, http.StatusCreated, event)
}

// write takes over annotations. Finalizers are not needed, because the host has its own.
func (a *apiServer) write(r *http.Request, s *store, name string, body []byte) (*http.Response, error) {
	old := s.get(name)
	if old == nil {
		return failure(r, http.StatusNotFound, metav1.StatusReasonNotFound, name+" not found")
	}
	var change struct {
		Metadata struct {
			Annotations map[string]*string `json:"annotations"`
		} `json:"metadata"`
		Status json.RawMessage `json:"status"`
		Spec   json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(body, &change); err != nil {
		return failure(r, http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "only merge patches are supported")
	}
	whole := r.Method == http.MethodPut
	if !whole && (change.Spec != nil || change.Status != nil) {
		return failure(r, http.StatusForbidden, metav1.StatusReasonForbidden, "Skydock does not let a provider change spec or status")
	}
	annotations := map[string]string{}
	if !whole {
		maps.Copy(annotations, old.GetAnnotations())
	}
	for key, value := range change.Metadata.Annotations {
		if delete(annotations, key); value != nil {
			annotations[key] = *value
		}
	}
	a.annotate(name, old.GetAnnotations(), annotations)
	updated, ok := old.DeepCopyObject().(object)
	if !ok {
		return failure(r, http.StatusInternalServerError, metav1.StatusReasonInternalError, "the object cannot be copied")
	}
	updated.SetAnnotations(annotations)
	s.update(updated)
	return answer(r, http.StatusOK, typed(updated))
}

// read has the host read an object.
func (a *apiServer) read(r *http.Request, kind, namespace, name string) (*http.Response, error) {
	text, err := a.current().ReadObject(kind, namespace, name)
	switch {
	case errors.Is(err, skydock.ErrNotFound):
		return failure(r, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %s/%s not found", kind, namespace, name))
	case errors.Is(err, skydock.ErrDenied):
		return failure(r, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("the configuration of Skydock does not allow to read %s %s/%s", kind, namespace, name))
	case err != nil:
		return failure(r, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, err.Error())
	}
	return answer(r, http.StatusOK, json.RawMessage(text))
}

// typed adds kind and version to an object.
func typed(o object) any {
	copied := o.DeepCopyObject()
	switch copied := copied.(type) {
	case *v1.Node:
		copied.TypeMeta = metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}
	case *v1.Service:
		copied.TypeMeta = metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}
	}
	return copied
}

func failure(r *http.Request, code int, reason metav1.StatusReason, message string) (*http.Response, error) {
	return answer(r, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

func answer(r *http.Request, code int, value any) (*http.Response, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: io.NopCloser(bytes.NewReader(text)),
		ContentLength: int64(len(text)), Request: r,
	}, nil
}

func number(version int64) string { return strconv.FormatInt(version, 10) }

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
