//! Metrics of plugins (`skydock_plugin_…`): calls, instances, traps, memory, CPU time, reloads.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::load::info::GenerationInfo;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Plugin {
    plugin: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Function {
    plugin: String,
    interface: &'static str,
    function: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    plugin: String,
    interface: &'static str,
    function: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    plugin: String,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Instances {
    plugin: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Generation {
    plugin: String,
    provider: String,
    version: String,
    digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reload {
    plugin: String,
    result: &'static str,
    stage: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Compilation {
    plugin: String,
    result: &'static str,
}

/// Buckets in seconds: from a warm call (tens of microseconds) to the deadline of a call that may
/// change the cloud (two minutes).
const DURATIONS: [f64; 14] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0,
];

/// Metrics of all plugins of a process, all named `skydock_plugin_…`. Clones share their values.
#[derive(Clone, Debug)]
pub struct PluginMetrics {
    calls: Family<Outcome, Counter>,
    durations: Family<Function, Histogram, fn() -> Histogram>,
    cpu: Family<Plugin, Counter<f64, std::sync::atomic::AtomicU64>>,
    memory: Family<Plugin, Gauge>,
    memory_peak: Family<Plugin, Gauge>,
    handles: Family<Plugin, Gauge>,
    instances: Family<Instances, Gauge>,
    traps: Family<Kind, Counter>,
    bad_answers: Family<Function, Counter>,
    log_dropped: Family<Plugin, Counter>,
    generation: Family<Plugin, Gauge>,
    generation_info: Family<Generation, Gauge>,
    reloads: Family<Reload, Counter>,
    rejected: Family<Plugin, Gauge>,
    last_good_in_use: Family<Plugin, Gauge>,
    compilations: Family<Compilation, Counter>,
}

impl Default for PluginMetrics {
    /// Creates metrics that are not registered.
    fn default() -> Self {
        Self {
            calls: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            cpu: Family::default(),
            memory: Family::default(),
            memory_peak: Family::default(),
            handles: Family::default(),
            instances: Family::default(),
            traps: Family::default(),
            bad_answers: Family::default(),
            log_dropped: Family::default(),
            generation: Family::default(),
            generation_info: Family::default(),
            reloads: Family::default(),
            rejected: Family::default(),
            last_good_in_use: Family::default(),
            compilations: Family::default(),
        }
    }
}

impl PluginMetrics {
    /// Creates metrics and registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        all.register_effects(registry);

        let registry = registry.sub_registry_with_prefix("skydock_plugin");
        registry.register("calls", "Calls by outcome", all.calls.clone());
        registry.register_with_unit(
            "call_duration",
            "Seconds of a call, including waiting for an instance",
            Unit::Seconds,
            all.durations.clone(),
        );

        registry.register_with_unit(
            "memory",
            "Memory of all instances, and of what Skydock keeps for them",
            Unit::Bytes,
            all.memory.clone(),
        );
        registry.register(
            "handles",
            "Handles that are reserved for instances",
            all.handles.clone(),
        );
        registry.register(
            "instances",
            "Instances by state: busy or idle",
            all.instances.clone(),
        );

        registry.register(
            "log_lines_dropped",
            "Log lines that exceeded the plugin's limit",
            all.log_dropped.clone(),
        );

        all.register_generations(registry);
        all
    }

    fn register_generations(&self, registry: &mut Registry) {
        registry.register(
            "generation",
            "Number of the generation in service",
            self.generation.clone(),
        );
        registry.register(
            "generation_info",
            "The plugin generation in service; the value is always 1",
            self.generation_info.clone(),
        );

        registry.register(
            "reloads",
            "New generations by result and failed stage",
            self.reloads.clone(),
        );
        registry.register(
            "rejected",
            "1 while the files of the plugin on disk are rejected",
            self.rejected.clone(),
        );
        registry.register(
            "last_good_in_use",
            "1 while the last good build is in service, because the plugin's file is bad",
            self.last_good_in_use.clone(),
        );

        registry.register(
            "compilations",
            "Compilations by result",
            self.compilations.clone(),
        );
    }

    /// Registers only what calls consume and which of them go wrong, for a reader after each call.
    pub fn register_effects(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("skydock_plugin");

        registry.register_with_unit(
            "guest_cpu",
            "CPU time of plugin calls: the plugin's own code, and what Skydock does on its behalf",
            Unit::Seconds,
            self.cpu.clone(),
        );
        registry.register_with_unit(
            "memory_peak",
            "Maximum linear memory of any instance of the plugin",
            Unit::Bytes,
            self.memory_peak.clone(),
        );

        registry.register(
            "traps",
            "Calls that terminated their instance: traps, exceeded limits and deadlines, canceled calls",
            self.traps.clone(),
        );
        registry.register(
            "bad_answers",
            "Answers, or elements of answers, that violate the contract",
            self.bad_answers.clone(),
        );
    }

    pub(crate) fn call(
        &self,
        plugin: &str,
        function: skydock_cloud::Function,
        outcome: &'static str,
        took: Duration,
    ) {
        let interface = function.capability().name();
        let function = function.name();

        self.calls
            .get_or_create(&Outcome {
                plugin: plugin.into(),
                interface,
                function,
                outcome,
            })
            .inc();

        self.durations
            .get_or_create(&Function {
                plugin: plugin.into(),
                interface,
                function,
            })
            .observe(took.as_secs_f64());
    }

    pub(crate) fn cpu(&self, plugin: &str, used: Duration) {
        if !used.is_zero() {
            self.cpu
                .get_or_create(&Plugin {
                    plugin: plugin.into(),
                })
                .inc_by(used.as_secs_f64());
        }
    }

    /// Returns the gauge for what a plugin takes of its total memory.
    pub(crate) fn memory_of(&self, plugin: &str) -> Gauge {
        self.memory.get_or_create_owned(&Plugin {
            plugin: plugin.into(),
        })
    }

    /// Returns the gauge for what a plugin takes of its handles.
    pub(crate) fn handles_of(&self, plugin: &str) -> Gauge {
        self.handles.get_or_create_owned(&Plugin {
            plugin: plugin.into(),
        })
    }

    pub(crate) fn memory_peak(&self, plugin: &str, peak: usize) {
        let peak = i64::try_from(peak).unwrap_or(i64::MAX);
        let gauge = self.memory_peak.get_or_create_owned(&Plugin {
            plugin: plugin.into(),
        });

        // Instances report at the same time, so the maximum is set atomically.
        gauge
            .inner()
            .fetch_max(peak, std::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn instances(&self, plugin: &str, state: &'static str, change: i64) {
        self.instances
            .get_or_create(&Instances {
                plugin: plugin.into(),
                state,
            })
            .inc_by(change);
    }

    pub(crate) fn terminated(&self, plugin: &str, kind: &'static str) {
        self.traps
            .get_or_create(&Kind {
                plugin: plugin.into(),
                kind,
            })
            .inc();
    }

    pub(crate) fn bad_answers(
        &self,
        plugin: &str,
        function: skydock_cloud::Function,
        count: usize,
    ) {
        if count > 0 {
            let interface = function.capability().name();
            let function = function.name();

            let labels = Function {
                plugin: plugin.into(),
                interface,
                function,
            };

            self.bad_answers.get_or_create(&labels).inc_by(count as u64);
        }
    }

    pub(crate) fn log_dropped(&self, plugin: &str) {
        self.log_dropped
            .get_or_create(&Plugin {
                plugin: plugin.into(),
            })
            .inc();
    }

    pub(crate) fn swapped(
        &self,
        plugin: &str,
        before: Option<&GenerationInfo>,
        now: &GenerationInfo,
    ) {
        let labels = |info: &GenerationInfo| Generation {
            plugin: plugin.into(),
            provider: info.name.clone(),
            version: info.version.clone(),
            digest: info.digest.clone(),
        };

        // The labels differ between generations, so the previous series would stay.
        if let Some(before) = before {
            self.generation_info.remove(&labels(before));
        }
        self.generation_info.get_or_create(&labels(now)).set(1);

        self.generation
            .get_or_create(&Plugin {
                plugin: plugin.into(),
            })
            .set(i64::try_from(now.number).unwrap_or(i64::MAX));

        self.reloads
            .get_or_create(&Reload {
                plugin: plugin.into(),
                result: "success",
                stage: "",
            })
            .inc();

        self.unchanged(plugin);
    }

    /// Records that the plugin's files are in service.
    pub(crate) fn unchanged(&self, plugin: &str) {
        let labels = Plugin {
            plugin: plugin.into(),
        };
        self.rejected.get_or_create(&labels).set(0);
        self.last_good_in_use.get_or_create(&labels).set(0);
    }

    /// Records that the last good build is in service instead of the plugin's files.
    pub(crate) fn last_good_serves(&self, plugin: &str) {
        self.last_good_in_use
            .get_or_create(&Plugin {
                plugin: plugin.into(),
            })
            .set(1);
    }

    pub(crate) fn compiled(&self, plugin: &str, succeeded: bool) {
        let result = if succeeded { "success" } else { "failure" };
        self.compilations
            .get_or_create(&Compilation {
                plugin: plugin.into(),
                result,
            })
            .inc();
    }

    pub(crate) fn reload_failed(&self, plugin: &str, stage: &'static str) {
        self.reloads
            .get_or_create(&Reload {
                plugin: plugin.into(),
                result: "failure",
                stage,
            })
            .inc();

        self.rejected
            .get_or_create(&Plugin {
                plugin: plugin.into(),
            })
            .set(1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn operating_md_lists_every_plugin_metric() {
        let page = include_str!("../../../docs/operating.md");
        let mut registry = Registry::default();
        let all = PluginMetrics::register(&mut registry);
        // All fields by name, so that none is forgotten here: a family without series is not
        // written.
        let PluginMetrics {
            calls,
            durations,
            cpu,
            memory,
            memory_peak,
            handles,
            instances,
            traps,
            bad_answers,
            log_dropped,
            generation,
            generation_info,
            reloads,
            rejected,
            last_good_in_use,
            compilations,
        } = all;
        let plugin = String::new;
        let (interface, function) = ("instances", "check");
        drop(calls.get_or_create(&Outcome {
            plugin: plugin(),
            interface,
            function,
            outcome: "ok",
        }));
        drop(bad_answers.get_or_create(&Function {
            plugin: plugin(),
            interface,
            function,
        }));
        drop(durations.get_or_create(&Function {
            plugin: plugin(),
            interface,
            function,
        }));
        drop(cpu.get_or_create(&Plugin { plugin: plugin() }));
        drop(log_dropped.get_or_create(&Plugin { plugin: plugin() }));
        for family in [
            &memory,
            &memory_peak,
            &handles,
            &generation,
            &rejected,
            &last_good_in_use,
        ] {
            drop(family.get_or_create(&Plugin { plugin: plugin() }));
        }
        drop(traps.get_or_create(&Kind {
            plugin: plugin(),
            kind: "cpu",
        }));
        drop(instances.get_or_create(&Instances {
            plugin: plugin(),
            state: "idle",
        }));
        let (provider, version, digest) = (String::new(), String::new(), String::new());
        drop(generation_info.get_or_create(&Generation {
            plugin: plugin(),
            provider,
            version,
            digest,
        }));
        drop(reloads.get_or_create(&Reload {
            plugin: plugin(),
            result: "success",
            stage: "",
        }));
        drop(compilations.get_or_create(&Compilation {
            plugin: plugin(),
            result: "success",
        }));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let types = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let ours: BTreeSet<_> = types
            .map(|(name, kind)| format!("{name}{}", if kind == "counter" { "_total" } else { "" }))
            .collect();
        let quoted = page.split('`').filter_map(|text| text.split('{').next());
        let told: BTreeSet<_> = quoted
            .filter(|text| text.starts_with("skydock_plugin_") && !text.contains(' '))
            .map(str::to_owned)
            .collect();
        assert_eq!(ours, told);
    }
}
