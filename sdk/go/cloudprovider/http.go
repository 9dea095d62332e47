package cloudprovider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

type duration = time.Duration

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
	kind, granted := kinds[resource]
	switch {
	case r.URL.Query().Get("dryRun") != "":
		return failure(r, http.StatusForbidden, metav1.StatusReasonForbidden, "Skydock does not offer dryRun")
	case resource == "events" && sub == "":
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
	case granted && sub == "" && r.Method == http.MethodGet && name != "":
		return a.read(r, Object{kind, namespace, name})
	case granted && sub == "" && r.Method == http.MethodGet:
		return a.listGranted(r, resource, namespace)
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

// watching returns whether a request is for a watch.
func watching(r *http.Request) bool {
	watching, _ := strconv.ParseBool(r.URL.Query().Get("watch"))
	return watching
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
	if watching(r) {
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
