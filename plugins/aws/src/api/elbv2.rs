//! Network load balancers.
