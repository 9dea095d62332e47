//! Classic load balancers.
