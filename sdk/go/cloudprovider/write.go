package cloudprovider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// write takes over annotations, and rejects requests that change something else: they would have no effect.
func (a *apiServer) write(r *http.Request, s *store, name string, body []byte) (*http.Response, error) {
	old := s.get(name)
	if old == nil {
		return failure(r, http.StatusNotFound, metav1.StatusReasonNotFound, name+" not found")
	}
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method == http.MethodPatch &&
		media != string(types.MergePatchType) && media != string(types.StrategicMergePatchType) {
		return failure(r, http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "Skydock only supports merge patches, not "+media)
	}
	change := patched
	if r.Method == http.MethodPut {
		change = a.replaced
	}
	annotations, problem := change(old, body)
	if problem != nil {
		return failure(r, int(problem.Code), problem.Reason, problem.Message)
	}
	if keys := a.annotate(name, old.GetAnnotations(), annotations); keys != nil {
		return failure(r, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf(
			"Skydock does not write these annotations of %s: %s. It writes those with a prefix of the plugin, to objects of the call", name, strings.Join(keys, ", ")))
	}
	updated, ok := old.DeepCopyObject().(object)
	if !ok {
		return failure(r, http.StatusInternalServerError, metav1.StatusReasonInternalError, "the object cannot be copied")
	}
	updated.SetAnnotations(annotations)
	s.update(updated)
	return answer(r, http.StatusOK, typed(updated))
}

func problem(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{Code: code, Reason: reason, Message: message}
}

func onlyAnnotations(field string) *metav1.Status {
	return problem(http.StatusForbidden, metav1.StatusReasonForbidden, "Skydock lets a provider change annotations only, not "+field)
}

// patched returns the annotations after a merge patch.
func patched(old object, body []byte) (map[string]string, *metav1.Status) {
	var patch struct {
		Metadata map[string]json.RawMessage `json:"metadata"`
	}
	var fields map[string]json.RawMessage
	var changes map[string]*string
	err := json.Unmarshal(body, &fields)
	if err == nil {
		err = json.Unmarshal(body, &patch)
	}
	text := patch.Metadata["annotations"]
	if err == nil && text != nil {
		err = json.Unmarshal(text, &changes)
	}
	if err != nil {
		return nil, problem(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the patch is not valid: "+err.Error())
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if field != "metadata" && field != "kind" && field != "apiVersion" {
			return nil, onlyAnnotations(field)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(patch.Metadata)) {
		same := map[string]string{
			"name": old.GetName(), "namespace": old.GetNamespace(), "uid": string(old.GetUID()), "resourceVersion": old.GetResourceVersion(),
		}
		value, known := same[field]
		var given string
		switch {
		case field == "annotations":
		case !known:
			return nil, onlyAnnotations("metadata." + field)
		case json.Unmarshal(patch.Metadata[field], &given) != nil || given != value:
			return nil, problem(http.StatusConflict, metav1.StatusReasonConflict, "metadata."+field+" is not that of the object")
		}
	}
	annotations := map[string]string{}
	if !bytes.Equal(text, []byte("null")) {
		maps.Copy(annotations, old.GetAnnotations())
	}
	for key, value := range changes {
		if strings.HasPrefix(key, "$") {
			return nil, problem(http.StatusBadRequest, metav1.StatusReasonBadRequest, "Skydock does not support "+key)
		}
		if delete(annotations, key); value != nil {
			annotations[key] = *value
		}
	}
	return annotations, nil
}

// replaced returns the annotations of an object that replaces another. Its status is ignored, as in Kubernetes.
func (a *apiServer) replaced(old object, body []byte) (map[string]string, *metav1.Status) {
	var fresh object
	var spec func(object) any
	switch old.(type) {
	case *v1.Service:
		fresh, spec = &v1.Service{}, func(o object) any { return o.(*v1.Service).Spec }
	default:
		fresh, spec = &v1.Node{}, func(o object) any { return o.(*v1.Node).Spec }
	}
	views := []object{old}
	if lent := a.lentService(); lent != nil && key(lent) == key(old) {
		views = append(views, lent) // with fields that only the call has
	}
	if err := json.Unmarshal(body, fresh); err != nil {
		return nil, problem(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the object is not valid: "+err.Error())
	}
	if version := fresh.GetResourceVersion(); version != "" && version != old.GetResourceVersion() {
		return nil, problem(http.StatusConflict, metav1.StatusReasonConflict, "the object has been changed: read it again")
	}
	for _, field := range []struct {
		name string
		of   func(object) any
	}{
		{"spec", spec},
		{"metadata.labels", func(o object) any { return o.GetLabels() }},
		{"metadata.finalizers", func(o object) any { return o.GetFinalizers() }},
		{"metadata.ownerReferences", func(o object) any { return o.GetOwnerReferences() }},
	} {
		same := func(view object) bool { return equality.Semantic.DeepEqual(field.of(view), field.of(fresh)) }
		if !slices.ContainsFunc(views, same) {
			return nil, onlyAnnotations(field.name)
		}
	}
	return fresh.GetAnnotations(), nil
}
