//! Circles in a graph.

use petgraph::algo::{astar, tarjan_scc};
use petgraph::graphmap::DiGraphMap;

/// Arrows between nodes with names.
type Graph<'a> = DiGraphMap<&'a str, ()>;

/// Returns a shortest circle of each group of nodes that reach each other, sorted. A circle begins
/// with its first name, and its last node has an arrow to the first.
pub(super) fn circles<'a>(arrows: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Vec<&'a str>> {
    let graph = Graph::from_edges(arrows);
    let groups = tarjan_scc(&graph)
        .into_iter()
        .filter(|group| group.len() > 1);
    let mut circles: Vec<_> = groups
        .filter_map(|group| shortest(&graph, &group))
        .collect();
    circles.sort();
    circles
}

/// Returns a shortest circle of these nodes.
fn shortest<'a>(graph: &Graph<'a>, group: &[&'a str]) -> Option<Vec<&'a str>> {
    let arrows = graph
        .all_edges()
        .filter(|(from, to, ())| group.contains(from) && group.contains(to));
    let back =
        arrows.filter_map(|(from, to, ())| astar(graph, to, |node| node == from, |_| 1, |_| 0));
    let (_, mut circle) = back.min_by_key(|(length, _)| *length)?;
    let first = circle
        .iter()
        .enumerate()
        .min_by_key(|(_, name)| **name)
        .map_or(0, |(at, _)| at);
    circle.rotate_left(first);
    Some(circle)
}
