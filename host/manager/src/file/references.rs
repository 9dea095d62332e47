//! Checks the files that a configuration names.

use std::path::Path;

use skydock_credentials::{
    clouds_file,
    config::{ClientCertificateConfig, CredentialConfig, MaskedFile, SecretVariable},
    split_cloud_conf,
};

use super::{SkydockConfiguration, tree};

/// How a WebAssembly component begins (component-model, `Binary.md`): magic number, version, layer.
const COMPONENT: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];

/// Maximum size in bytes of a file of a credential.
const MAX_SECRET: u64 = 256 * 1024;

/// Returns what is wrong with the files, each with the path of the field that names it. Blocks the
/// thread.
pub(super) fn problems(
    configuration: &SkydockConfiguration,
    tree: &tree::Node,
) -> Vec<super::Finding> {
    let mut all = Vec::new();
    let root = tree::Path::default();
    for (index, plugin) in configuration.plugins.iter().enumerate() {
        let at = root.clone().key("plugins").index(index);

        let component = component(&plugin.file).err();
        all.extend(component.map(|problem| (at.clone().key("file"), problem)));
        if let Some(file) = &plugin.cloud_config {
            let read = super::text(file).err();
            all.extend(read.map(|error| (at.clone().key("cloudConfig"), error.to_string())));
        }

        for (index, rule) in plugin.egress.iter().enumerate() {
            let tls = rule.tls.as_ref().and_then(|tls| {
                let certificates = configuration.credentials.iter();
                let mut certificates =
                    certificates.filter_map(CredentialConfig::client_certificate);
                let wanted = tls.client_certificate.as_ref();
                let certificate = certificates.find(|it| Some(&it.name) == wanted);
                tls.check_files(certificate.map(ClientCertificateConfig::certificate))
                    .err()
            });
            let at = at.clone().key("egress").index(index).key("tls");
            all.extend(tls.map(|problem| (at, problem)));
        }
    }

    let audit = configuration.audit.as_ref();
    let audit = audit.and_then(|audit| audit.check_file().err());
    all.extend(audit.map(|problem| (root.clone().keys("audit.file"), problem)));

    for (index, credential) in configuration.credentials.iter().enumerate() {
        let at = root.clone().key("credentials").index(index);
        // The fields of all types, also of those that will be added.
        let (_, node) = tree.find(&at);
        node.each_text(&at, &mut |path, text| {
            let problems = files_in(path, text).into_iter().filter_map(|file| {
                let problem = secret(Path::new(file)).err()?;
                Some((path.clone(), problem))
            });
            all.extend(problems);
        });

        let conf = cloud_conf(credential);
        let clouds = clouds_file(credential);
        all.extend(conf.map(|problem| (at.clone().keys("login.keystone.cloudConf"), problem)));
        all.extend(clouds.map(|problem| (at.keys("login.keystone.cloudsFile"), problem)));
    }

    all
}

/// Returns which secrets are too short, each with the path of the field that names its file. Blocks
/// the thread.
pub(super) fn short_secrets(configuration: &SkydockConfiguration) -> Vec<super::Finding> {
    let all = configuration.credentials.iter().enumerate();
    let short = all.filter_map(|(index, credential)| {
        let MaskedFile {
            field,
            path,
            min_length,
        } = credential.masked_file()?;
        // That it cannot be read is found with the other files.
        let text = super::text(path).ok()?;
        let length = text.trim_end_matches(['\n', '\r']).len();

        let at = tree::Path::default()
            .key("credentials")
            .index(index)
            .keys(field);
        let sentence = format!(
            "the secret in {} has fewer than {min_length} bytes: it is not masked in answers that quote it; use a longer one",
            path.display()
        );
        // An empty file is an error already.
        (1..min_length).contains(&length).then_some((at, sentence))
    });

    short.collect()
}

/// Returns the files that a text of a credential names: the field is a file, or the text contains
/// `{{FILE}}`.
fn files_in<'a>(path: &tree::Path, text: &'a str) -> Vec<&'a str> {
    let is_file = match path.steps().last() {
        Some(tree::Step::Key(key)) => {
            key.ends_with("File") || ["file", "cloudConf"].contains(&key.as_str())
        }
        _ => false,
    };

    let templates = text.split("{{").skip(1);
    let templates = templates.filter_map(|rest| Some(rest.split_once("}}")?.0));
    let all: Vec<_> = if is_file {
        vec![text]
    } else {
        templates.collect()
    };

    // What is no absolute path is an error already, and may be the secret itself.
    all.into_iter()
        .filter(|file| file.starts_with('/'))
        .collect()
}

/// Returns what is wrong with secrets in environment variables, each with the path of the field that
/// names it. The variables of this process are not those of another one, so these are no errors.
pub(super) fn variables(configuration: &SkydockConfiguration) -> Vec<super::Finding> {
    let all = configuration.credentials.iter().enumerate();
    let wrong = all.filter_map(|(index, credential)| {
        let SecretVariable {
            field,
            variable,
            min_length: least,
            is_header,
        } = credential.variable()?;
        let sentence = match variable.length() {
            0 => format!(
                "the environment variable {variable} is not set here: set it where Skydock runs"
            ),
            _ if is_header && !variable.fits_header() => format!(
                "the secret in {variable} has a line break or another control character, which no header can have: requests with it are denied"
            ),
            length if length < least => format!(
                "the secret in {variable} has fewer than {least} bytes: it is not masked in answers that quote it; use a longer one"
            ),
            _ => return None,
        };
        let at = tree::Path::default().key("credentials").index(index);
        Some((at.keys(field), sentence))
    });

    wrong.collect()
}

fn component(file: &Path) -> Result<(), String> {
    let mut start = [0; COMPONENT.len()];
    let read = skydock_sandbox::open(file)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start));

    match read {
        Ok(()) if start == COMPONENT => Ok(()),
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            Err(format!("cannot read {}: {error}", file.display()))
        }
        // A file that is shorter than the header is no component either.
        _ => Err(format!("{} is not a WebAssembly component", file.display())),
    }
}

/// Checks that a file can be read and is not empty. What it contains is a secret.
fn secret(file: &Path) -> Result<(), String> {
    let name = file.display();
    let meta = skydock_sandbox::open(file)
        .and_then(|file| file.metadata())
        .map_err(|error| format!("cannot read {name}: {error}"))?;

    if !meta.is_file() {
        Err(format!("{name} is not a regular file"))
    } else if meta.len() == 0 {
        Err(format!("{name} is empty"))
    } else if meta.len() > MAX_SECRET {
        Err(format!(
            "{name} is larger than 256 KiB, the maximum for secrets"
        ))
    } else {
        Ok(())
    }
}

/// Returns why the `cloud.conf` of a credential has no usable login.
fn cloud_conf(credential: &CredentialConfig) -> Option<String> {
    let file = credential.cloud_conf()?;
    // That it cannot be read is found with the other files.
    let text = super::text(file).ok()?;
    let error = split_cloud_conf(&text).err()?;
    Some(format!("{}: {error}", file.display()))
}

/// Returns why the `clouds.yaml` of a credential has no usable login.
fn clouds_file(credential: &CredentialConfig) -> Option<String> {
    let (file, cloud) = credential.clouds_file()?;
    let text = super::text(file).ok()?;
    let problem = clouds_file::login(&text, cloud).err()?;
    Some(format!("{}: {problem}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_credentials_are_found_by_field_and_template() {
        let path = |dotted| tree::Path::default().keys(dotted);
        for (field, text, files) in [
            ("valueFile", "/a", &["/a"][..]),
            ("source.sharedFile.file", "/a", &["/a"]),
            ("login.keystone.cloudConf", "/a", &["/a"]),
            (
                "login.template.body",
                "{\"p\": \"{{/a}}\", \"q\": \"{{/b}}\"}",
                &["/a", "/b"],
            ),
            ("valueFile", "t0ken", &[]),
            ("login.template.body", "{{t0ken}}", &[]),
            ("name", "file", &[]),
            ("prefix", "{{", &[]),
        ] {
            assert_eq!(files_in(&path(field), text), files, "{field}");
        }
    }
}
