//! The program `skydock` on the embedded control plane: its flags, its life, and the elector and
//! the IPAM controller by themselves.

mod check;
mod doctor;
mod election;
mod flags;
mod inspect;
mod ipam;
mod migrate;
mod signals;
