//! The flags that are in effect, for `/flagz`.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, CommandFactory as _, FromArgMatches as _};

use super::Cli;

/// Parses the words that clap understands, and keeps all flags with their values.
pub(super) fn parse(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    let mut matches = command.try_get_matches_from_mut(words)?;

    let effective = command.get_arguments();
    let effective = effective
        .filter_map(|arg| in_effect(arg, &matches))
        .collect();
    let parsed = Cli::from_arg_matches_mut(&mut matches);
    let mut cli = parsed.map_err(|error| error.format(&mut command))?;
    cli.ccm.effective = effective;
    Ok(cli)
}

/// Returns the name of a flag and its value, without what may be secret.
fn in_effect(arg: &Arg, matches: &ArgMatches) -> Option<(String, String)> {
    let name = arg.get_long()?;
    if matches!(arg.get_action(), ArgAction::Help | ArgAction::Version) {
        return None;
    }

    let values = matches.try_get_raw(arg.get_id().as_str()).ok()?;
    let values = values.into_iter().flatten();
    let values: Vec<_> = values
        .map(|value| shown(name, &value.to_string_lossy()))
        .collect();
    Some((name.to_owned(), values.join(",")))
}

/// Returns the value of a flag without what may be secret.
pub(super) fn shown(flag: &str, value: &str) -> String {
    let hidden = match flag {
        // Options must not be secrets, but nobody knows all of them.
        "plugin-option" => value.split_once('=').map(|(key, _)| format!("{key}=…")),
        // User and password. The address of the API server need not be a URL.
        _ if flag == "master" || value.contains("://") => {
            value.rsplit_once('@').map(|(_, host)| host.to_owned())
        }
        _ => None,
    };
    hidden.unwrap_or_else(|| value.to_owned())
}
