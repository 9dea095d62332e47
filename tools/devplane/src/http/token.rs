//! Tokens for service accounts.

use axum::{extract::Request, response::Response};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{body, json, query::Query};
use crate::{
    resources::{
        object::{self, as_map, child},
        schema,
    },
    status::{Cause, StatusError},
    storage::{
        plane::Plane,
        write::{self, Target},
    },
};

/// Creates a token for a service account. This server does not accept it anywhere.
pub(super) async fn create(
    plane: &Plane,
    target: &Target,
    query: &Query,
    request: Request,
) -> Result<Response, StatusError> {
    query.options("CreateOptions")?;
    /// Minimum and default of an API server.
    const SECONDS: (i64, i64) = (600, 3600);

    let body = body::object(request, &schema::groups::TOKEN_REQUEST).await?;
    let mut answer = schema::decode(body, &schema::groups::TOKEN_REQUEST, &mut Vec::new())
        .map_err(|mismatch| {
            StatusError::bad_request(format!("cannot read the TokenRequest: {mismatch}"))
        })?;
    let account = plane.read(|store| write::current(store, target))?;

    let spec = child(&mut answer, "spec");
    let seconds = spec
        .entry("expirationSeconds")
        .or_insert_with(|| SECONDS.1.into())
        .as_i64()
        .unwrap_or(SECONDS.1);
    spec.entry("audiences")
        .or_insert_with(|| json!(["https://kubernetes.default.svc"]));
    spec.entry("boundObjectRef").or_insert(Value::Null);

    if !(SECONDS.0..=1 << 32).contains(&seconds) {
        let why = "may not be less than 10 minutes or more than 2^32 seconds";
        let cause = Cause::invalid("spec.expirationSeconds", &seconds.into(), why);
        return Err(StatusError::invalid(
            target.resource,
            &target.name,
            &[cause],
        ));
    }

    let now = plane.clock().now();
    let expires = now
        .checked_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX);
    let fields = as_map(&mut answer);
    fields.insert("kind".into(), "TokenRequest".into());
    fields.insert("apiVersion".into(), "authentication.k8s.io/v1".into());
    let metadata: Value = json!({
        "name": object::name(&account.value), "namespace": object::namespace(&account.value), "uid": object::text(&account.value, "/metadata/uid"),
        "creationTimestamp": object::time(now),
    });
    fields.insert("metadata".into(), metadata);

    let token = format!("devplane-{}", uuid::Uuid::new_v4());
    fields.insert(
        "status".into(),
        json!({"token": token, "expirationTimestamp": object::time(expires)}),
    );

    Ok(json(StatusCode::CREATED, &answer))
}
