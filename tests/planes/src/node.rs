use std::collections::BTreeMap;

/// What a kubelet registers its Node with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// The Node's name.
    pub name: String,
    /// `spec.providerID`; without one the cloud controller has to set it.
    pub provider_id: Option<String>,
    /// Labels beside those that every kubelet sets.
    pub labels: BTreeMap<String, String>,
}

impl NodeSpec {
    /// A node with the provider ID `kubemark://NAME`, as Kubernetes' own hollow nodes have it, and no labels.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { provider_id: Some(format!("kubemark://{name}")), name, labels: BTreeMap::new() }
    }

    /// With this provider ID.
    #[must_use]
    pub fn with_provider_id(self, provider_id: impl Into<String>) -> Self {
        Self { provider_id: Some(provider_id.into()), ..self }
    }

    /// With no provider ID: the cloud controller has to set it.
    #[must_use]
    pub fn without_provider_id(self) -> Self {
        Self { provider_id: None, ..self }
    }

    /// With one label more.
    #[must_use]
    pub fn with_label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }
}

impl From<&str> for NodeSpec {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}
