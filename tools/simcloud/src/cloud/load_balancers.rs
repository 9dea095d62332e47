//! Operations on load balancers.
use std::collections::{BTreeMap, BTreeSet};

use super::Cloud;
use crate::api::error::{Error, Result};
use crate::api::parse;
use crate::history::Millis;
use crate::resources::load_balancers::{
    self, Change, Health, Hook, LoadBalancer, MOST, New, Status, View,
};

impl Cloud {
    /// Returns a load balancer as clients see it.
    pub(crate) fn load_balancer_view<'a>(
        &self,
        at: Millis,
        number: u64,
        it: &'a LoadBalancer,
    ) -> View<'a> {
        let status = it.status(at);
        let health = |target: &String| {
            let default = if self.answers(at, target) {
                Health::Healthy
            } else {
                Health::Unhealthy
            };
            it.health.get(target).copied().unwrap_or(default)
        };

        View {
            id: load_balancers::id(number),
            name: &it.spec.name,
            status,
            ip_families: &it.spec.ip_families,
            addresses: if status == Status::Pending {
                Vec::new()
            } else {
                it.addresses()
            },
            listeners: &it.spec.listeners,
            targets: &it.spec.targets,
            health: it
                .spec
                .targets
                .iter()
                .map(|target| (target.as_str(), health(target)))
                .collect(),
            allowed_cidrs: &it.spec.allowed_cidrs,
            health_check_port: it.spec.health_check_port,
            labels: &it.spec.labels,
        }
    }

    pub(crate) fn load_balancer(&self, now: Millis, id: &str) -> Result<(u64, &LoadBalancer)> {
        let found = parse::number("lb-", id)
            .and_then(|number| Some((number, self.load_balancers.get(now, number)?)));
        found.ok_or_else(|| Error::not_found("load balancer", id))
    }

    pub(crate) fn create_load_balancer(&mut self, now: Millis, spec: New) -> Result<u64> {
        spec.check()?;
        if let Some((number, _)) = self
            .load_balancers
            .all(now)
            .find(|(_, other)| other.spec.name == spec.name)
        {
            return Err(Error::exists(
                "load balancer",
                load_balancers::id(number),
                &spec.name,
            ));
        }

        if self.load_balancers.len() >= MOST {
            return Err(Error::quota(MOST, "load balancers"));
        }

        let taken: BTreeSet<u16> = self
            .load_balancers
            .all(now)
            .map(|(_, other)| other.slot)
            .collect();

        // There are more slots than load balancers.
        let slot = (1..=u16::MAX)
            .find(|slot| !taken.contains(slot))
            .unwrap_or_default();

        let ready = now + self.settings.lb_delay_ms;
        let created = LoadBalancer {
            spec,
            slot,
            ready,
            broken: false,
            health: BTreeMap::new(),
        };
        Ok(self.load_balancers.create(now, created))
    }

    pub(crate) fn change_load_balancer(
        &mut self,
        now: Millis,
        number: u64,
        change: Change,
    ) -> Result<()> {
        // The caller has found it.
        let Some(current) = self.load_balancers.get(now, number) else {
            return Ok(());
        };

        if current.status(now) == Status::Pending {
            return Err(Error::pending("load balancer", &load_balancers::id(number)));
        }

        let mut it = current.clone();
        let spec = &mut it.spec;
        spec.listeners = change
            .listeners
            .unwrap_or_else(|| std::mem::take(&mut spec.listeners));
        spec.targets = change
            .targets
            .unwrap_or_else(|| std::mem::take(&mut spec.targets));
        spec.allowed_cidrs = change
            .allowed_cidrs
            .unwrap_or_else(|| std::mem::take(&mut spec.allowed_cidrs));
        spec.health_check_port = change.health_check_port.unwrap_or(spec.health_check_port);
        spec.labels = change
            .labels
            .unwrap_or_else(|| std::mem::take(&mut spec.labels));

        spec.check()?;
        it.health.retain(|target, _| spec.targets.contains(target));
        self.load_balancers.change(now, number, it);
        Ok(())
    }

    /// Sets what only a test can set.
    pub(crate) fn hook_load_balancer(&mut self, now: Millis, id: &str, hook: Hook) -> Result<u64> {
        let (number, current) = self.load_balancer(now, id)?;
        let mut it = current.clone();

        if let Some(target) = hook
            .health
            .keys()
            .find(|target| !it.spec.targets.contains(target))
        {
            return Err(Error::field("health", format!("no target {target}")));
        }

        it.health.extend(hook.health);
        it.broken |= hook.status.is_some();
        self.load_balancers.change(now, number, it);
        Ok(number)
    }
}
