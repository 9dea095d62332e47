//! What a plugin says about itself before any of its code runs, in a custom section.

/// Declares the plugin, so that `skydock plugin inspect FILE` shows what it is and wishes without a
/// configuration and without running it. The version is that of the crate.
///
/// It must agree with [`Plugin::info`](crate::Plugin::info): the host rejects a plugin that answers
/// a name, a version, a prefix or a host that is not declared. `*` stands for any text: what the
/// configuration decides.
///
/// ```
/// skydock_sdk::metadata! {
///     name: "metal",
///     provider_id_prefixes: ["metal://"],
///     wanted_hosts: ["https://*.metal.example:443"],
/// }
/// ```
///
/// The declaration is JSON in the custom section `skydock:plugin` of the component.
#[macro_export]
macro_rules! metadata {
    (
        name: $name:literal
        $(, provider_id_prefixes: [$id:literal $(, $ids:literal)* $(,)?])?
        $(, annotation_prefixes: [$annotation:literal $(, $annotations:literal)* $(,)?])?
        $(, wanted_hosts: [$host:literal $(, $hosts:literal)* $(,)?])?
        $(,)?
    ) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, reason = "a section of a name that no other code uses")]
        const _: () = {
            const TEXT: &[u8] = ::core::concat!(
                "{\"name\":\"", $name, "\",\"version\":\"", ::core::env!("CARGO_PKG_VERSION"), "\"",
                $(",\"providerIdPrefixes\":[\"", $id, "\"" $(, ",\"", $ids, "\"")*, "]",)?
                $(",\"annotationPrefixes\":[\"", $annotation, "\"" $(, ",\"", $annotations, "\"")*, "]",)?
                $(",\"wantedHosts\":[\"", $host, "\"" $(, ",\"", $hosts, "\"")*, "]",)?
                "}"
            )
            .as_bytes();

            #[used]
            #[unsafe(link_section = "skydock:plugin")]
            static SECTION: [u8; TEXT.len()] = {
                let mut section = [0; TEXT.len()];
                section.copy_from_slice(TEXT);
                section
            };
        };
    };
}
