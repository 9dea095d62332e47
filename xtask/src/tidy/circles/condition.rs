//! Code that is compiled for tests only.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Lit, Meta, Token};

/// The feature with which a crate has what the tests of other crates need.
const FEATURE: &str = "testing";

/// True for what has one of these attributes: `#[test]`, or `#[cfg]` with a condition that is true
/// for tests only.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.segments
            .last()
            .is_some_and(|last| last.ident == "test")
            || (path.is_ident("cfg")
                && attribute
                    .parse_args()
                    .is_ok_and(|condition| needs_test(&condition)))
    })
}

/// True if the condition is true for tests only.
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(name) => name.is_ident("test") || name.is_ident("doctest"),
        Meta::NameValue(pair) => {
            let is_ours = |value: &Expr| matches!(value, Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if text.value() == FEATURE);
            pair.path.is_ident("feature") && is_ours(&pair.value)
        }
        Meta::List(list) => {
            let parts = list
                .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
                .unwrap_or_default();
            let mut parts = parts.iter();
            match () {
                () if list.path.is_ident("all") => parts.any(needs_test),
                () if list.path.is_ident("any") => parts.all(needs_test),
                () => false,
            }
        }
    }
}
