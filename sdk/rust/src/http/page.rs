//! Lists that a cloud returns page by page.
use super::{Request, Response, send};
use crate::Result;
use crate::types::CloudError;

/// Requests all pages, and returns their elements in order. `next` reads a page: it returns the
/// elements, and the request for the next page if there is one.
///
/// ```
/// use serde::Deserialize;
/// use skydock_sdk::Result;
/// use skydock_sdk::http::{self, Request, Response};
///
/// #[derive(Deserialize)]
/// struct Page {
///     servers: Vec<String>,
///     next: Option<String>,
/// }
///
/// fn servers(api: &str) -> Result<Vec<String>> {
///     http::pages(Request::get(format!("{api}/servers")), |response| {
///         let page: Page = response.json()?;
///         Ok((page.servers, page.next.map(Request::get)))
///     })
/// }
/// # let _guard = http::native::intercept(|request| {
/// #     let body = match request.url.as_str() {
/// #         "https://c/servers" => r#"{"servers": ["a"], "next": "https://c/servers?marker=a"}"#,
/// #         _ => r#"{"servers": ["b"]}"#,
/// #     };
/// #     Some(Response { status: 200, body: body.into(), ..Response::default() })
/// # });
/// # assert_eq!(servers("https://c")?, ["a", "b"]);
/// # Ok::<(), skydock_sdk::types::CloudError>(())
/// ```
///
/// # Errors
///
/// Those of [`send`], [`Response::error`] for a page that is not a success, those of `next`, and
/// [`internal`](CloudError::Internal) if a page leads to itself or to an earlier one. The elements
/// of earlier pages are not returned: an incomplete list would look like a complete one. An endless
/// list ends with the deadline of the call ([`unavailable`](CloudError::Unavailable)), or with the
/// call itself if its elements exceed the memory of the instance.
pub fn pages<T>(
    first: Request,
    mut next: impl FnMut(&Response) -> Result<(Vec<T>, Option<Request>)>,
) -> Result<Vec<T>> {
    let mut all = Vec::new();
    let mut request = first;
    let mut read = Vec::new();

    loop {
        let (items, following) = next(&send(request.clone())?.success()?)?;
        all.extend(items);
        read.push(request);

        match following {
            None => return Ok(all),
            Some(following) if read.contains(&following) => {
                let message =
                    format!("a page of a list leads to itself or to an earlier one: {following:?}");
                return Err(CloudError::internal(message));
            }
            Some(following) => request = following,
        }
    }
}
