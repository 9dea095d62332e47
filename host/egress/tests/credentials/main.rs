//! Every kind of credential against a small cloud that hands out tokens, sessions and keys, and checks what it is given.

mod aws;
mod cloud;
mod issuer;
mod leaks;
mod oauth2;
mod real;
mod sessions;
mod world;
