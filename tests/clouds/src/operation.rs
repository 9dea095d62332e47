//! Names of operations. Pure.

use http::HeaderMap;

use crate::aws::APIS;

/// Maximum length in bytes of a body that is searched for an action.
const ACTION_BODY: usize = 64 * 1024;

/// Returns the name of a request to an OpenStack service: IDs are replaced by `{id}`, the version
/// is omitted, and an action of a server is included.
pub(crate) fn openstack(service: &str, method: &str, path: &str, body: &[u8]) -> String {
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    let kept = segments
        .enumerate()
        .filter(|(at, segment)| !(*at == 0 && is_version(segment)));
    let named: Vec<&str> = kept
        .map(|(_, segment)| if is_id(segment) { "{id}" } else { segment })
        .collect();
    let mut name = format!("{method} {}", [vec![service], named].concat().join("/"));
    if name.ends_with("/action") && body.len() <= ACTION_BODY {
        let action = serde_json::from_slice::<serde_json::Value>(body).ok();
        if let Some(action) = action
            .as_ref()
            .and_then(|body| body.as_object()?.keys().next())
        {
            name = format!("{name}:{action}");
        }
    }
    name
}

/// Returns true for a version, for example `v3` or `v2.1`.
fn is_version(segment: &str) -> bool {
    let number = segment.strip_prefix('v').unwrap_or_default();
    number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// Returns true for a UUID, with or without dashes.
fn is_id(segment: &str) -> bool {
    let digits = segment.chars().filter(|c| *c != '-').count();
    digits == 32 && segment.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

/// Returns the name of a request to AWS or to its metadata service.
pub(crate) fn aws(
    method: &str,
    path: &str,
    query: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> String {
    let form = std::str::from_utf8(body).unwrap_or_default();
    let parameter = |name: &str| parameter(form, name).or_else(|| parameter(query, name));
    if let Some(action) = parameter("Action") {
        let version = parameter("Version").unwrap_or_default();
        let api = APIS
            .iter()
            .find(|(_, known, _)| *known == version)
            .map_or("aws", |(_, _, name)| name);
        return format!("{api}:{action}");
    }
    if let Some(target) = headers
        .get("x-amz-target")
        .and_then(|target| target.to_str().ok())
    {
        return format!("json:{}", target.rsplit('.').next().unwrap_or_default());
    }
    let service = if path.starts_with("/latest/") {
        "imds"
    } else {
        "aws"
    };
    format!("{service}:{method} {path}")
}

/// Returns the name of a request to another server: that of the first element in the body of a SOAP
/// message, or the method and the path, in which names of resources with a colon are replaced by
/// `{id}`.
pub(crate) fn other(method: &str, path: &str, body: &str) -> String {
    let action = body
        .split_once("Body>")
        .and_then(|(_, rest)| rest.trim_start().strip_prefix('<'));
    if let Some(action) = action.and_then(|rest| rest.split([' ', '>', '/']).next()) {
        return format!("soap:{action}");
    }
    let segments = path.split('/').map(|segment| {
        if segment.contains(':') {
            "{id}"
        } else {
            segment
        }
    });
    format!("{method} {}", segments.collect::<Vec<_>>().join("/"))
}

/// Returns a parameter of a form or query. The names and values used here need no decoding.
pub(crate) fn parameter<'a>(form: &'a str, name: &str) -> Option<&'a str> {
    form.split('&')
        .find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name))
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openstack_operations_are_named_without_ids_and_versions() {
        let id = "0c7ef7d8-3a3c-4c24-8a4c-d1bd72eb7c51";
        let name = |method, path: &str, body: &[u8]| openstack("compute", method, path, body);
        assert_eq!(
            name("GET", "/v2.1/servers/detail", b""),
            "GET compute/servers/detail"
        );
        assert_eq!(
            name("DELETE", &format!("/v2.1/servers/{id}"), b""),
            "DELETE compute/servers/{id}"
        );
        assert_eq!(
            name("GET", &format!("/v3/projects/{}", id.replace('-', "")), b""),
            "GET compute/projects/{id}"
        );
        let action = format!("/v2.1/servers/{id}/action");
        assert_eq!(
            name("POST", &action, b"{\"os-stop\": null}"),
            "POST compute/servers/{id}/action:os-stop"
        );
        assert_eq!(
            name("POST", &action, b"["),
            "POST compute/servers/{id}/action"
        );
        assert_eq!(name("GET", "/", b""), "GET compute");
        assert_eq!(name("GET", "/v2.0/vlans/v2", b""), "GET compute/vlans/v2");
    }

    #[test]
    fn operations_of_other_servers_are_named() {
        let soap = "<?xml version=\"1.0\"?>\n<Envelope xmlns=\"x\"><Body><FindByUuid xmlns=\"urn:vim25\"><_this/></FindByUuid></Body></Envelope>";
        assert_eq!(other("POST", "/sdk", soap), "soap:FindByUuid");
        assert_eq!(
            other("POST", "/sdk", "<soap:Body>\n <Logout/></soap:Body>"),
            "soap:Logout"
        );
        assert_eq!(
            other("GET", "/rest/tag/id:urn:vmomi:1", ""),
            "GET /rest/tag/{id}"
        );
        assert_eq!(other("POST", "/token", "a=b"), "POST /token");
    }

    #[test]
    fn aws_operations_are_named_by_api_and_action() {
        let name = |body: &str| aws("POST", "/", "", &HeaderMap::new(), body.as_bytes());
        assert_eq!(
            name("Action=DescribeInstances&Version=2016-11-15"),
            "ec2:DescribeInstances"
        );
        assert_eq!(
            name("Version=2012-06-01&Action=DescribeLoadBalancers"),
            "elb:DescribeLoadBalancers"
        );
        assert_eq!(
            name("Version=2015-12-01&Action=DescribeLoadBalancers"),
            "elbv2:DescribeLoadBalancers"
        );
        let metadata = aws("PUT", "/latest/api/token", "", &HeaderMap::new(), b"");
        assert_eq!(metadata, "imds:PUT /latest/api/token");
        let query = aws(
            "GET",
            "/",
            "Action=GetCallerIdentity&Version=2011-06-15",
            &HeaderMap::new(),
            b"",
        );
        assert_eq!(query, "sts:GetCallerIdentity");
    }
}
