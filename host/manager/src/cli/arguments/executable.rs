//! The words before the flags in the arguments of a manifest: the path of the executable of another
//! image, and of a program that starts it.

/// What a word before the flags is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The executable of a cloud-controller-manager, or a program that starts it.
    Executable,
    /// A shell, which would run a script.
    Shell,
    /// Anything else.
    Other,
}

/// The paths that the executable, or a program that starts it, has in images of
/// cloud-controller-managers, one in each line. Our image has links with these paths
/// (`tools/image`). In manifests, the name may be without the path.
const PATHS: &str = include_str!("executables.txt");

/// Part of the names of most of these executables.
const COMMON: &str = "cloud-controller-manager";

const SHELLS: [&str; 6] = ["ash", "bash", "busybox", "dash", "env", "sh"];

/// Says what a word before the flags is.
pub(crate) fn recognize(word: &str) -> Word {
    let name = word.rsplit('/').next().unwrap_or_default();
    let is_path = word.starts_with(['/', '.']) && word.contains('/');
    // `/etc/kubernetes/cloud.conf` is the value of a flag that was forgotten.
    let is_program = is_path && !name.is_empty() && !name.contains('.');
    let is_known = || {
        PATHS
            .lines()
            .any(|path| path.rsplit('/').next() == Some(name))
    };

    if SHELLS.contains(&name) {
        Word::Shell
    } else if is_program || name.contains(COMMON) || is_known() {
        Word::Executable
    } else {
        Word::Other
    }
}

/// Returns true for a flag of `go-runner`, which is before the path of the program that it starts.
pub(crate) fn is_flag_of_starter(name: &str) -> bool {
    ["also-stdout", "log-file", "redirect-stderr"].contains(&name)
}

/// Returns the error for a shell.
pub(super) fn shell_rejection(word: &str) -> String {
    format!(
        "{word:?} starts a shell, which Skydock's image does not have: write only the flags of the cloud-controller-manager \
         as args; `skydock migrate MANIFEST` does that"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_of_other_images_are_recognized() {
        for (word, expected) in [
            ("/cloud-controller-manager", Word::Executable),
            (
                "/usr/local/bin/oci-cloud-controller-manager",
                Word::Executable,
            ),
            ("metal-cloud-controller-manager", Word::Executable),
            ("./cloud-controller-manager-linux-amd64", Word::Executable),
            ("/cloud-controller-manager.alicloud", Word::Executable),
            ("/app/ccm", Word::Executable),
            ("/go-runner", Word::Executable),
            ("/usr/bin/cloud-provider", Word::Executable),
            ("/sbin/tini", Word::Executable),
            ("hyperkube", Word::Executable),
            ("ccm", Word::Executable),
            ("/bin/bash", Word::Shell),
            ("sh", Word::Shell),
            ("/etc/kubernetes/cloud.conf", Word::Other),
            ("etc/cloud", Word::Other),
            ("true", Word::Other),
            ("/", Word::Other),
        ] {
            assert_eq!(recognize(word), expected, "{word}");
        }
    }
}
