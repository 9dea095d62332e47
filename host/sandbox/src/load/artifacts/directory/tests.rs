use std::{collections::BTreeMap, os::unix::fs::PermissionsExt};

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn read(directory: &Directory, name: &str) -> String {
    io::read_to_string(directory.file(name, 4).unwrap()).unwrap()
}

/// Returns all files below `path` with their contents.
fn tree(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.insert(path.clone(), Vec::new());
            all.extend(tree(&path));
        } else {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

#[test]
fn existing_files_in_the_directory_are_not_changed() {
    let home = tempfile::tempdir().unwrap();
    for file in [
        "notes.txt",
        "cloud.yaml",
        ".ssh/id",
        "plugins/my.wasm",
        "docs/thesis/chapters/one.tex",
    ] {
        let file = home.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, format!("dear {}", file.display())).unwrap();
    }
    let before = tree(home.path());
    let directory = Directory::open(home.path()).unwrap();
    fs::write(directory.path().join("x"), "").unwrap();
    directory.remove("x").unwrap();
    let mut after = tree(home.path());

    assert_eq!(after.remove(&home.path().join(NAME)), Some(Vec::new()));
    assert_eq!(
        after
            .remove(&home.path().join(NAME).join(MARKER))
            .as_deref(),
        Some(MARKER_TEXT)
    );
    assert_eq!(after, before);
}

#[test]
fn a_new_cache_is_private_to_its_owner() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a/b");
    Directory::open(&dir).unwrap();
    assert_eq!((mode(&dir), mode(&dir.join(NAME))), (0o700, 0o700));
    Directory::open(&dir).unwrap();
}

// Holds: SEC-14
#[test]
fn a_cache_writable_by_others_is_rejected() {
    let parent = tempfile::tempdir().unwrap();
    for open in [0o777, 0o770, 0o702] {
        let dir = parent.path().join(format!("{open:o}"));
        fs::create_dir(&dir).unwrap();
        chmod(&dir, open);
        assert!(
            matches!(Directory::open(&dir), Err(CacheDirError::Open { .. })),
            "{open:o}"
        );
        chmod(&dir, 0o755);
        Directory::open(&dir).unwrap();
        chmod(&dir.join(NAME), open);
        let error = Directory::open(&dir).err().unwrap();
        assert!(error.to_string().contains(NAME), "{error}");
    }
    let dir = parent.path().join("shared");
    Directory::open(&dir).unwrap();
    chmod(&dir.join(NAME), 0o750);

    assert!(matches!(
        Directory::open(&dir),
        Err(CacheDirError::Shared { mode: 0o750, .. })
    ));
}

#[test]
fn a_link_or_a_file_is_rejected_as_cache() {
    let parent = tempfile::tempdir().unwrap();
    let (file, link) = (parent.path().join("file"), parent.path().join("link"));
    fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(parent.path(), &link).unwrap();
    for path in [&file, &link] {
        assert!(matches!(
            Directory::open(path),
            Err(CacheDirError::NotDirectory(_))
        ));
    }
    let dir = parent.path().join("dir");
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::symlink(parent.path(), dir.join(NAME)).unwrap();
    let error = Directory::open(&dir).err().unwrap();

    assert!(
        matches!(&error, CacheDirError::NotDirectory(path) if path.ends_with(NAME)),
        "{error}"
    );
}

#[test]
fn a_directory_not_created_by_skydock_is_rejected() {
    let parent = tempfile::tempdir().unwrap();
    let own = parent.path().join(NAME);
    DirBuilder::new().mode(0o700).create(&own).unwrap();
    fs::write(own.join("thesis.tex"), "dear").unwrap();
    let error = Directory::open(parent.path()).err().unwrap();
    assert!(
        error
            .to_string()
            .starts_with(&format!("{} was not created by Skydock", own.display())),
        "{error}"
    );
    assert_eq!(fs::read(own.join("thesis.tex")).unwrap(), b"dear");

    // A process that ended between creating and marking the directory leaves an empty one.
    fs::remove_file(own.join("thesis.tex")).unwrap();
    Directory::open(parent.path()).unwrap();
    assert!(own.join(MARKER).is_file());
}

// Holds: SEC-14
#[test]
fn a_directory_swapped_later_is_not_used() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, away) = (parent.path().join("cache"), parent.path().join("away"));
    let directory = Directory::open(&dir).unwrap();
    fs::write(dir.join(NAME).join("file"), "ours").unwrap();
    fs::rename(&dir, &away).unwrap();
    fs::create_dir_all(dir.join(NAME)).unwrap();
    fs::write(dir.join(NAME).join("file"), "theirs").unwrap();
    assert_eq!(read(&directory, "file"), "ours");

    directory.rename("file", "other").unwrap();
    assert_eq!(fs::read(away.join(NAME).join("other")).unwrap(), b"ours");
    assert_eq!(
        fs::read(directory.for_a_child().join("other")).unwrap(),
        b"ours"
    );
}

#[test]
fn only_regular_files_within_the_size_limit_are_read() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::open(parent.path()).unwrap();
    let own = directory.path();
    fs::write(own.join("long"), "abcd").unwrap();
    std::os::unix::fs::symlink("long", own.join("link")).unwrap();
    fs::create_dir(own.join("dir")).unwrap();
    assert_eq!(read(&directory, "long"), "abcd");

    for (name, limit) in [("long", 3), ("link", 4), ("dir", 4096), ("none", 4)] {
        assert!(directory.file(name, limit).is_err(), "{name}");
    }
    let mut names: Vec<_> = directory
        .files()
        .unwrap()
        .into_iter()
        .map(|file| file.name)
        .collect();
    names.sort();
    assert_eq!(names, [MARKER, "long"]);
}
