package cloudprovider

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	skydock "github.com/skydock/skydock/sdk/go"
)

// mostEvents is the number of events that are remembered, so that a patch, which means that an event happened again, finds it.
const mostEvents = 200

// event publishes an event, or answers with those that were published.
func (a *apiServer) event(r *http.Request, name string, body []byte) (*http.Response, error) {
	switch {
	case r.Method == http.MethodGet && name == "" && !watching(r):
		a.mu.Lock()
		defer a.mu.Unlock()
		events := slices.AppendSeq([]*v1.Event{}, maps.Values(a.events))
		return answer(r, http.StatusOK, map[string]any{"kind": "EventList", "apiVersion": "v1", "metadata": map[string]string{}, "items": events})
	case r.Method == http.MethodGet && name != "":
		if event := a.published(name); event != nil {
			return answer(r, http.StatusOK, event)
		}
		return failure(r, http.StatusNotFound, metav1.StatusReasonNotFound, "the event is not known")
	case r.Method == http.MethodPost && name == "":
		event := &v1.Event{}
		if err := json.Unmarshal(body, event); err != nil {
			return failure(r, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		}
		return a.publish(r, event)
	case (r.Method == http.MethodPatch || r.Method == http.MethodPut) && name != "": // it happened again
		event := a.published(name)
		if event == nil {
			return failure(r, http.StatusNotFound, metav1.StatusReasonNotFound, "the event is not known")
		}
		return a.publish(r, event)
	}
	return failure(r, http.StatusForbidden, metav1.StatusReasonForbidden, "Skydock does not offer "+r.Method+" "+r.URL.Path)
}

func (a *apiServer) published(name string) *v1.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.events[name]
}

func (a *apiServer) publish(r *http.Request, event *v1.Event) (*http.Response, error) {
	involved := event.InvolvedObject.Name
	if event.InvolvedObject.Namespace != "" && event.InvolvedObject.Kind != "Node" {
		involved = event.InvolvedObject.Namespace + "/" + involved
	}
	severity := skydock.Normal
	if event.Type == v1.EventTypeWarning {
		severity = skydock.Warning
	}
	if !a.current().Publish(involved, severity, event.Reason, event.Message) {
		return failure(r, http.StatusForbidden, metav1.StatusReasonForbidden, "Skydock publishes events about objects of the call only, not about "+involved)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.events) >= mostEvents {
		clear(a.events)
	}
	a.events[event.Name] = event
	return answer(r, http.StatusCreated, event)
}
