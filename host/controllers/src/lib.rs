//! Kubernetes' cloud controllers, on any provider.
