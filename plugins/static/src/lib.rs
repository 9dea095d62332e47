//! The default provider: machines and addresses from an inventory file.
