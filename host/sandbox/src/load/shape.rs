//! The shape of a component: the numbers of its parts, counted before anything is compiled.
//!
//! The compiler processes every instance of every nested component separately, so a few kilobytes
//! can describe billions of instances. Counting them takes time in proportion to the size of the
//! file, a few milliseconds.

use skydock_resources::limits::Limits;
use wasmparser::{
    BinaryReaderError, ComponentAlias, ComponentExternalKind, ComponentInstance,
    ComponentOuterAliasKind, Encoding, Instance, Payload,
};

use crate::load::error::{LoadProblem, TooMuch};

/// Maximum number of functions of all modules. The largest guests of garbage-collected languages
/// have about 50,000.
const FUNCTIONS: u64 = 100_000;

/// Maximum bytes of code of all modules: about two minutes of compilation.
const CODE: u64 = 96 << 20;

/// Maximum number of instances of modules and components; those in a nested component count each
/// time it is instantiated. A guest in one language has about 20, one that is composed of several
/// has a few hundred.
const INSTANCES: u64 = 1_000;

/// Maximum number of definitions (instances, their arguments, aliases, adapters of functions,
/// imports, exports), counted in the same way. The compiler processes each of them. A large guest
/// has a few thousand.
const DEFINITIONS: u64 = 100_000;

/// Maximum depth of nested components. Tools that compose components nest three or four deep.
const DEPTH: u64 = 16;

/// Maximum number of components that one component can name: nested ones, and each alias or export
/// of one. They are kept in memory while the file is read, and a name takes only four bytes of the
/// file.
const COMPONENTS: u64 = 10_000;

/// Maximum number of imports, and of exports, of the component itself. All of WASI and the contract
/// are about fifty.
const NAMES: u64 = 1_000;

/// Maximum bytes of the name of an import or export.
const NAME: u64 = 256;

/// Returns an error if the number found exceeds the limit.
fn at_most(what: &'static str, found: u64, most: u64) -> Result<(), LoadProblem> {
    if found > most {
        Err(TooMuch { what, found, most }.into())
    } else {
        Ok(())
    }
}

/// What one instance of a component consists of.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    instances: u64,
    definitions: u64,
}

impl Weight {
    /// Adds one definition with this many parts.
    fn define(&mut self, parts: usize) {
        self.definitions = self
            .definitions
            .saturating_add(1)
            .saturating_add(parts as u64);
    }

    /// Adds an instance of a component with this weight.
    fn add(&mut self, child: Self) {
        self.instances = self
            .instances
            .saturating_add(1)
            .saturating_add(child.instances);
        self.definitions = self.definitions.saturating_add(child.definitions);
    }
}

/// A component that is being read, or a module in one.
struct Level {
    encoding: Encoding,
    weight: Weight,
    /// The weights of the components that it can instantiate, by index.
    components: Vec<Weight>,
}

impl Level {
    /// Adds a component that it can name.
    fn name(&mut self, weight: Weight) -> Result<(), LoadProblem> {
        self.components.push(weight);
        at_most(
            "components that can be named",
            self.components.len() as u64,
            COMPONENTS,
        )
    }

    /// Adds an alias. `outer` are the components around this one.
    fn alias(&mut self, alias: &ComponentAlias<'_>, outer: &[Self]) -> Result<(), LoadProblem> {
        self.weight.define(0);
        match alias {
            ComponentAlias::Outer {
                kind: ComponentOuterAliasKind::Component,
                count,
                index,
            } => {
                // 0 is this component, and 1 the one around it.
                let (count, index) = (*count as usize, *index);
                let from = match count.checked_sub(1) {
                    None => component(&self.components, index),
                    Some(up) => outer
                        .iter()
                        .rev()
                        .nth(up)
                        .map_or(NOWHERE, |it| component(&it.components, index)),
                };

                self.name(from)
            }
            // An instance may export any component that was passed to it, so its weight is not
            // known.
            ComponentAlias::InstanceExport {
                kind: ComponentExternalKind::Component,
                ..
            } => Err(LoadProblem::PassesComponents),
            _ => Ok(()),
        }
    }
}

/// Counts the parts while the payloads of a component are read.
pub(crate) struct Shape {
    levels: Vec<Level>,
    functions: u64,
    code: u64,
    table_elements: u64,
}

impl Shape {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            levels: Vec::new(),
            functions: 0,
            code: 0,
            table_elements: limits.table_elements as u64,
        }
    }

    /// Returns the bytes of code of all modules.
    pub(crate) fn code(&self) -> u64 {
        self.code
    }

    /// Counts the next payload, in the order of the bytes.
    pub(crate) fn see(&mut self, payload: &Payload<'_>) -> Result<(), LoadProblem> {
        match payload {
            Payload::Version { encoding, .. } => {
                at_most(
                    "levels of components within components",
                    self.levels.len() as u64,
                    DEPTH,
                )?;

                self.levels.push(Level {
                    encoding: *encoding,
                    weight: Weight::default(),
                    components: Vec::new(),
                });
                Ok(())
            }
            Payload::End(_) => self.leave(),
            Payload::FunctionSection(section) => {
                self.functions = self.functions.saturating_add(section.count().into());
                at_most("functions", self.functions, FUNCTIONS)
            }
            Payload::CodeSectionStart { size, .. } => {
                self.code = self.code.saturating_add((*size).into());
                at_most("bytes of code", self.code, CODE)
            }
            Payload::TableSection(section) => {
                // Only the size at the start: the limiter of an instance checks what it grows to.
                for table in section.clone() {
                    at_most(
                        "elements in a table (--plugin-limit table-elements)",
                        table.map_err(malformed)?.ty.initial,
                        self.table_elements,
                    )?;
                }
                Ok(())
            }
            _ => self.define(payload),
        }
    }

    /// Counts the definitions of a component.
    fn define(&mut self, payload: &Payload<'_>) -> Result<(), LoadProblem> {
        let Some((level, outer)) = self.levels.split_last_mut() else {
            return Ok(());
        };
        match payload {
            Payload::InstanceSection(section) => {
                for instance in section.clone() {
                    level.weight.define(match instance.map_err(malformed)? {
                        Instance::Instantiate { args, .. } => args.len(),
                        Instance::FromExports(exports) => exports.len(),
                    });
                    // An instance of a module has no others in it.
                    level.weight.add(Weight::default());
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section.clone() {
                    let (child, parts) = match instance.map_err(malformed)? {
                        ComponentInstance::Instantiate {
                            component_index,
                            args,
                        } => (component(&level.components, component_index), args.len()),
                        ComponentInstance::FromExports(exports) => {
                            (Weight::default(), exports.len())
                        }
                    };

                    level.weight.define(parts);
                    level.weight.add(child);
                }
            }

            Payload::ComponentAliasSection(section) => {
                for alias in section.clone() {
                    level.alias(&alias.map_err(malformed)?, outer)?;
                }
            }

            Payload::ComponentImportSection(section) => {
                for import in section.clone() {
                    level.weight.define(0);
                    if import.map_err(malformed)?.ty.kind() == ComponentExternalKind::Component {
                        return Err(LoadProblem::PassesComponents);
                    }
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section.clone() {
                    level.weight.define(0);
                    let export = export.map_err(malformed)?;
                    if export.kind == ComponentExternalKind::Component {
                        let exported = component(&level.components, export.index);
                        level.name(exported)?;
                    }
                }
            }

            Payload::ComponentCanonicalSection(section) => {
                level.weight.define(section.count() as usize);
            }
            Payload::ComponentTypeSection(section) => level.weight.define(section.count() as usize),
            Payload::CoreTypeSection(section) => level.weight.define(section.count() as usize),
            _ => {}
        }

        Ok(())
    }

    /// Ends a component or module.
    fn leave(&mut self) -> Result<(), LoadProblem> {
        let Some(Level {
            weight, encoding, ..
        }) = self.levels.pop()
        else {
            return Ok(());
        };

        match self.levels.last_mut() {
            Some(parent) => {
                if encoding == Encoding::Component {
                    parent.name(weight)
                } else {
                    Ok(())
                }
            }
            None => {
                at_most(
                    "instances of modules and components",
                    weight.instances,
                    INSTANCES,
                )?;
                at_most(
                    "definitions in all its instances",
                    weight.definitions,
                    DEFINITIONS,
                )
            }
        }
    }
}

/// Weight of a component that does not exist. Such a component is not valid, which the compiler
/// reports.
const NOWHERE: Weight = Weight {
    instances: 0,
    definitions: 0,
};

fn component(components: &[Weight], index: u32) -> Weight {
    components.get(index as usize).copied().unwrap_or(NOWHERE)
}

fn malformed(error: BinaryReaderError) -> LoadProblem {
    LoadProblem::Malformed(error)
}

/// Checks the length of an import's or export's name, and their number; there were `before` names
/// before this one.
pub(crate) fn name(kind: Named, before: usize, name: &str) -> Result<(), LoadProblem> {
    let (many, long) = match kind {
        Named::Import => ("imports", "bytes in the name of an import"),
        Named::Export => ("exports", "bytes in the name of an export"),
    };
    at_most(many, before as u64 + 1, NAMES)?;
    at_most(long, name.len() as u64, NAME)
}

/// What a name belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named {
    Import,
    Export,
}

#[cfg(test)]
mod tests;
