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
type client struct{ config }

// page is a page of a list.
type page[T any] struct {
	Items []T     `json:"items"`
	Next  *string `json:"next"`
}

// problem is an answer that is an error, with the error that its status stands for.
type problem struct {
	error
	status int
	Code   string `json:"code"`
	// ID of the object that has the name already.
	ID string `json:"id"`
}

// Unwrap returns the error that the status stands for.
func (p *problem) Unwrap() error { return p.error }

// answered returns the cloud's error, if the answer is one with this status and code. The status alone is not enough: a proxy, or a
// wrong URL, answers 404, too.
func answered(err error, status int, code string) (*problem, bool) {
	var p *problem
	return p, errors.As(err, &p) && p.status == status && p.Code == code
}

// path returns the path of an object.
func path(kind, id string) string { return kind + "/" + url.PathEscape(id) }

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
	request, err := http.NewRequestWithContext(ctx, method, c.URL+"/v1/"+path, body)
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
		p := &problem{error: err, status: response.StatusCode}
		_ = json.Unmarshal(text, p) // without a code, it is not the cloud's
		return p
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return skydock.Internal("%s %s: the answer is not as expected: %w", method, path, err)
	}
	return nil
}

// named returns the objects with a name. Unlike a complete list, the answer does not lag behind.
func named[T any](ctx context.Context, c *client, kind, name string) ([]T, error) {
	var found page[T]
	err := c.do(ctx, http.MethodGet, kind+"?"+url.Values{"name": {name}}.Encode(), nil, &found)
	return found.Items, err
}

// remove deletes an object. It succeeds if the object is gone already.
func (c *client) remove(ctx context.Context, kind, id string) error {
	err := c.do(ctx, http.MethodDelete, path(kind, id), nil, nil)
	if _, gone := answered(err, http.StatusNotFound, "not_found"); gone {
		return nil
	}
	return err
}
