//! An embedded Kubernetes control plane for development, demos and fast tests.
