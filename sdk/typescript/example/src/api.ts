// The objects of the cloud, with the fields that are used here.

/** Our pairs on an object. */
export type Labels = Record<string, string>;

/** A page of a list. */
export interface Page<T> {
  items: T[];
  next: string | null;
}

/** The body of an error. */
export interface Problem {
  code: string;
  /** Of the object that has the name already. */
  id?: string;
}

/** A server. */
export interface Server {
  id: string;
  name: string;
  state: string;
  type: string;
  zone: string;
  region: string;
  addresses: { kind: "internal" | "external"; address: string }[];
}

/** What we decide about a load balancer: the body of a create. */
export interface LoadBalancerSpec {
  name: string;
  ip_families: string[];
  listeners: { protocol: string; port: number; target_port: number }[];
  targets: string[];
  allowed_cidrs: string[];
  health_check_port: number | null;
  labels: Labels;
}

/** A load balancer. */
export interface LoadBalancer extends LoadBalancerSpec {
  id: string;
  status: "pending" | "active" | "error";
  addresses: string[];
}

/** What we decide about a route: the body of a create. */
export interface RouteSpec {
  name: string;
  cidr: string;
  target: string;
  labels: Labels;
}

/** A route. */
export interface Route extends RouteSpec {
  id: string;
  blackhole: boolean;
}
