//! Splits a cloud configuration: what is secret becomes a credential, and the plugin gets the rest.

pub(crate) mod cloud_conf;
pub mod clouds_file;
pub(crate) mod keystone_login;
pub(crate) mod withheld;

/// Returns whether the section `[Global]` of a provider configuration sets this option. Case does
/// not matter.
#[must_use]
pub fn has_global(text: &str, name: &str) -> bool {
    let file = skydock_gcfg::parse(text);
    file.entries.iter().any(|entry| {
        let is_it = |key: &String| key.eq_ignore_ascii_case(name);
        entry.section.eq_ignore_ascii_case("global")
            && entry.subsection.is_empty()
            && entry.key.as_ref().is_some_and(is_it)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_set_in_the_section_global_only() {
        for (text, expected) in [
            ("[Global]\nRegion = eu-west-1\n", true),
            ("[global]\nVPC = v\nregion = eu-west-1\n", true),
            ("[Global]\n# Region = eu-west-1\n", false),
            ("[Global \"1\"]\nRegion = eu-west-1\n", false),
            ("[ServiceOverride \"1\"]\nRegion = eu-west-1\n", false),
            ("Global: {Region: eu-west-1}\n", false),
            ("", false),
        ] {
            assert_eq!(has_global(text, "region"), expected, "{text}");
        }
    }
}
