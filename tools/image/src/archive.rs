//! An archive with an OCI image layout.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use crate::Image;

/// How layers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Compressed, for registries.
    Compressed,
    /// As it is, for an import on this machine.
    Plain,
}

/// An image that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The digest, which is also that in a registry, unless the image is copied for one
    /// architecture only.
    pub digest: String,
    /// The sizes for each architecture.
    pub sizes: Vec<Size>,
}

/// The size of an image for one architecture, which has a single layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The name of the architecture in images.
    pub architecture: &'static str,
    /// Bytes of the layer as it is stored, which a node pulls.
    pub stored: usize,
    /// Bytes of the layer without compression, which it takes on a node.
    pub plain: usize,
}

/// Writes an archive with an image of this name, for example `registry.example.com/skydock:0.1.0`,
/// for one or more architectures.
///
/// # Errors
/// If the name has no tag, two images have the same architecture, or the file cannot be written.
pub fn write(name: &str, images: &[Image], layer: Layer, to: &Path) -> Result<Written> {
    let tag = tag(name)?;
    let mut archive = Archive::create(to)?;
    let mut architectures = BTreeSet::new();
    let mut sizes = Vec::new();
    let mut manifests = Vec::new();
    for image in images {
        let architecture = image.architecture();
        ensure!(
            architectures.insert(architecture),
            "two programs are for {architecture}"
        );
        let platform = json!({"architecture": architecture, "os": "linux"});
        let (manifest, size) = archive.image(image, layer)?;
        manifests.push(manifest.json_with("platform", &platform));
        sizes.push(size);
    }
    let image = archive.json(INDEX, &index(&manifests))?;
    archive.end(name, tag, &image)?;
    Ok(Written {
        digest: image.digest,
        sizes,
    })
}

/// Returns the tag in the name of an image. A colon before a slash belongs to the port of a
/// registry.
pub(crate) fn tag(name: &str) -> Result<&str> {
    match name.rsplit_once(':') {
        Some((_, tag)) if !tag.is_empty() && !tag.contains('/') => Ok(tag),
        _ => bail!("{name} has no tag; expected for example registry.example.com/skydock:0.1.0"),
    }
}

const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Returns an [index](https://github.com/opencontainers/image-spec/blob/main/image-index.md).
fn index(manifests: &[Value]) -> Value {
    json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})
}

/// Where a blob is
/// ([descriptor](https://github.com/opencontainers/image-spec/blob/main/descriptor.md)).
struct Descriptor {
    media_type: &'static str,
    digest: String,
    size: usize,
}

impl Descriptor {
    fn json(&self) -> Value {
        json!({"mediaType": self.media_type, "digest": self.digest, "size": self.size})
    }

    fn json_with(&self, field: &str, value: &Value) -> Value {
        let mut json = self.json();
        if let Some(fields) = json.as_object_mut() {
            fields.insert(field.to_owned(), value.clone());
        }
        json
    }
}

struct Archive {
    builder: Builder<File>,
}

impl Archive {
    fn create(path: &Path) -> Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        let mut archive = Self {
            builder: Builder::new(file),
        };
        archive.add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        Ok(archive)
    }

    /// Adds an image, and returns its manifest.
    fn image(&mut self, image: &Image, stored: Layer) -> Result<(Descriptor, Size)> {
        let layer = image.layer()?;
        let plain = layer.len();
        let configuration = image.configuration(&digest(&layer));
        let layer = match stored {
            Layer::Plain => self.blob("application/vnd.oci.image.layer.v1.tar", &layer)?,
            Layer::Compressed => {
                let media_type = "application/vnd.oci.image.layer.v1.tar+gzip";
                self.blob(media_type, &compressed(&layer)?)?
            }
        };
        let configuration =
            self.json("application/vnd.oci.image.config.v1+json", &configuration)?;
        let media_type = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": media_type,
            "config": configuration.json(),
            "layers": [layer.json()],
        });
        let size = Size {
            architecture: image.architecture(),
            stored: layer.size,
            plain,
        };
        Ok((self.json(media_type, &manifest)?, size))
    }

    fn json(&mut self, media_type: &'static str, value: &Value) -> Result<Descriptor> {
        self.blob(media_type, value.to_string().as_bytes())
    }

    fn blob(&mut self, media_type: &'static str, bytes: &[u8]) -> Result<Descriptor> {
        let digest = digest(bytes);
        self.add(&format!("blobs/{}", digest.replace(':', "/")), bytes)?;
        Ok(Descriptor {
            media_type,
            digest,
            size: bytes.len(),
        })
    }

    fn add(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(bytes.len().try_into().context("a blob is too large")?);
        self.builder
            .append_data(&mut header, path, bytes)
            .with_context(|| format!("cannot write {path} into the archive"))
    }

    /// Adds the index of the layout, with the only image under its name.
    fn end(mut self, name: &str, tag: &str, image: &Descriptor) -> Result<()> {
        // The first is read by containerd and Docker, the second, a tag, by Skopeo and Podman.
        let annotations = json!({
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": tag,
        });
        let index = index(&[image.json_with("annotations", &annotations)]);
        self.add("index.json", index.to_string().as_bytes())?;
        let mut file = self
            .builder
            .into_inner()
            .context("cannot end the archive")?;
        file.flush().context("cannot write the archive")
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Compresses without a name and a date.
fn compressed(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder
        .write_all(bytes)
        .context("cannot compress a layer")?;
    encoder.finish().context("cannot compress a layer")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use super::*;
    use crate::files::tests::program;

    const NAME: &str = "registry.example.com/app:1";

    fn image(machine: u16) -> Image {
        Image::of_program("/app", program(machine)).unwrap().user(7)
    }

    /// Writes an archive. Returns its bytes, its files and what is known about the image.
    fn written(images: &[Image], layer: Layer) -> (Vec<u8>, BTreeMap<String, Vec<u8>>, Written) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.tar");
        let written = write(NAME, images, layer, &path).unwrap();
        let bytes = std::fs::read(path).unwrap();
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(&*bytes).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.insert(entry.path().unwrap().display().to_string(), content);
        }
        (bytes, files, written)
    }

    /// Reads what a descriptor refers to, and checks what it says about that.
    fn blob<'a>(files: &'a BTreeMap<String, Vec<u8>>, descriptor: &Value) -> &'a [u8] {
        let named = descriptor["digest"].as_str().unwrap();
        let bytes = &files[&format!("blobs/{}", named.replace(':', "/"))];
        assert_eq!(digest(bytes), named);
        assert_eq!(descriptor["size"], bytes.len());
        bytes
    }

    fn parsed(files: &BTreeMap<String, Vec<u8>>, descriptor: &Value) -> Value {
        serde_json::from_slice(blob(files, descriptor)).unwrap()
    }

    #[test]
    fn every_descriptor_leads_to_its_blob() {
        for layer in [Layer::Compressed, Layer::Plain] {
            let (_, files, written) = written(&[image(62), image(183)], layer);
            let top: Value = serde_json::from_slice(&files["index.json"]).unwrap();
            let named = &top["manifests"][0];
            assert_eq!(named["digest"], written.digest);
            assert_eq!(named["annotations"]["io.containerd.image.name"], NAME);
            assert_eq!(
                named["annotations"]["org.opencontainers.image.ref.name"],
                "1"
            );

            let index = parsed(&files, named);
            let manifests = index["manifests"].as_array().unwrap();
            let platforms: Vec<_> = manifests
                .iter()
                .map(|manifest| manifest["platform"]["architecture"].as_str().unwrap())
                .collect();
            assert_eq!(platforms, ["amd64", "arm64"]);
            assert_eq!(written.sizes.len(), 2);
            for ((manifest, platform), size) in manifests.iter().zip(platforms).zip(written.sizes) {
                let manifest = parsed(&files, manifest);
                let configuration = parsed(&files, &manifest["config"]);
                assert_eq!(configuration["architecture"], platform);
                assert_eq!(configuration["config"]["User"], "7:7");
                let stored = blob(&files, &manifest["layers"][0]);
                let mut plain = stored.to_vec();
                if layer == Layer::Compressed {
                    plain.clear();
                    let mut decoder = flate2::read::GzDecoder::new(stored);
                    decoder.read_to_end(&mut plain).unwrap();
                }
                let expected = configuration["rootfs"]["diff_ids"][0].as_str();
                assert_eq!(Some(&*digest(&plain)), expected);
                let told = (size.architecture, size.stored, size.plain);
                assert_eq!(told, (platform, stored.len(), plain.len()));
            }
        }
    }

    #[test]
    fn the_same_files_have_the_same_digest() {
        let first = written(&[image(62)], Layer::Compressed);
        let again = written(&[image(62)], Layer::Compressed);
        assert!(first.0 == again.0 && first.2 == again.2);
        let other = image(62).file("/etc/more", 0o644, "more");
        let other = written(&[other], Layer::Compressed);
        assert_ne!(other.2.digest, first.2.digest);
    }

    #[test]
    fn a_name_has_a_tag() {
        assert_eq!(tag(NAME).unwrap(), "1");
        assert_eq!(tag("localhost:5000/app:1.4.2").unwrap(), "1.4.2");
        for name in ["app", "app:", "localhost:5000/app"] {
            let error = tag(name).unwrap_err().to_string();
            assert!(error.contains(" has no tag; expected "), "{error}");
        }
    }

    #[test]
    fn an_architecture_is_there_once() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("image.tar");
        let error = write(NAME, &[image(62), image(62)], Layer::Plain, &to).unwrap_err();
        assert_eq!(error.to_string(), "two programs are for amd64");
    }
}
