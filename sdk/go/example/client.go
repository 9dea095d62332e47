package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	skydock "github.com/skydock/skydock/sdk/go"
)

// client sends requests to simcloud.
type client struct {
	endpoint string
}

// page is a page of a list.
type page[T any] struct {
	Items []T     `json:"items"`
	Next  *string `json:"next"`
}

// existing is the error of a create whose name is used by another object.
type existing struct {
	id string
}

func (e *existing) Error() string { return "the name is used by " + e.id }

// do sends a request. The answer is decoded into out, if that is not nil.
func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.endpoint+"/v1/"+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return skydock.Unavailable("%s %s: %w", method, path, err)
	}
	response.Body = io.NopCloser(bytes.NewReader(text))
	if err := skydock.ResponseError(response); err != nil {
		var reason struct {
			Code string `json:"code"`
			ID   string `json:"id"`
		}
		_ = json.Unmarshal(text, &reason)
		switch reason.Code {
		case "exists":
			return errors.Join(err, &existing{reason.ID})
		case "quota": // the operator must act, but the credentials are fine
			return skydock.Invalid("%w", err)
		}
		return err
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return skydock.Internal("%s %s: the answer is not valid: %w", method, path, err)
	}
	return nil
}

// byName returns the object with this name, or nil. Such a list never lags.
func byName[T any](ctx context.Context, c *client, kind, name string) (*T, error) {
	var found page[T]
	if err := c.do(ctx, http.MethodGet, kind+"?name="+url.QueryEscape(name), nil, &found); err != nil {
		return nil, err
	}
	if len(found.Items) == 0 {
		return nil, nil
	}
	return &found.Items[0], nil
}

// remove deletes an object. It succeeds if the object does not exist.
func (c *client) remove(ctx context.Context, kind, id string) error {
	err := c.do(ctx, http.MethodDelete, kind+"/"+url.PathEscape(id), nil, nil)
	if errors.Is(err, skydock.ErrNotFound) {
		return nil
	}
	return err
}
