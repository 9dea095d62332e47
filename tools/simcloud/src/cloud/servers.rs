//! Operations on servers.
use std::net::IpAddr;

use super::Cloud;
use crate::api::error::{Error, Result};
use crate::history::Millis;
use crate::resources::servers::{Change, MOST, Server, State, number};

impl Cloud {
    pub(crate) fn server(&self, now: Millis, id: &str) -> Result<(u64, &Server)> {
        let found = number(id).and_then(|number| Some((number, self.servers.get(now, number)?)));
        found.ok_or_else(|| Error::not_found("server", id))
    }

    pub(crate) fn create_server(&mut self, now: Millis, change: Change) -> Result<u64> {
        if change.name.is_none() {
            return Err(Error::field("name", "missing field `name`"));
        }

        if self.servers.len() >= MOST {
            return Err(Error::quota(MOST, "servers"));
        }

        let server =
            Server::numbered(self.servers.next(), &self.options).changed(change, &self.options)?;
        Ok(self.servers.create(now, server))
    }

    pub(crate) fn change_server(&mut self, now: Millis, id: &str, change: Change) -> Result<u64> {
        let (number, server) = self.server(now, id)?;
        let server = server.clone().changed(change, &self.options)?;
        self.servers.change(now, number, server);
        Ok(number)
    }

    /// Returns whether something answers at a target: the ID or an address of a server.
    pub(crate) fn answers(&self, at: Millis, target: &str) -> bool {
        let runs = |server: &Server| server.state == State::Running;
        match target.parse::<IpAddr>() {
            Ok(ip) => self.servers.all(at).any(|(_, server)| {
                runs(server) && server.addresses.iter().any(|address| address.address == ip)
            }),
            Err(_) => number(target)
                .and_then(|number| self.servers.get(at, number))
                .is_some_and(runs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn a_running_server_answers_at_its_id_and_addresses() {
        let mut cloud = Cloud::new(&Options {
            servers: 2,
            ..Options::default()
        });
        let stop = Change {
            state: Some(State::Stopped),
            ..Change::default()
        };
        cloud.change_server(10, "srv-2", stop).unwrap();
        for (target, expected) in [
            ("srv-1", true),
            ("10.0.0.1", true),
            ("srv-2", false),
            ("10.0.0.2", false),
            ("10.9.9.9", false),
            ("x", false),
        ] {
            assert_eq!(cloud.answers(10, target), expected, "{target}");
        }

        assert!(cloud.answers(9, "srv-2"));
    }
}
