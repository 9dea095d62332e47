//! Requests of a plugin through `wasi:http/outgoing-handler`, several concurrently in one thread.
use std::collections::VecDeque;
use std::time::Duration;

use wasip2::clocks::monotonic_clock;
use wasip2::io::poll::{self, Pollable};

use self::exchange::Exchange;
use super::failure::Failure;
use super::prepared::Prepared;
use super::{Request, Response, time};
use crate::{Result as Answered, calls};

mod code;
mod download;
mod exchange;
mod head;
mod upload;

/// A request in flight.
struct Flight {
    /// The place of the request among the arguments of [`send_all`], and of its answer.
    index: usize,
    /// The request's method and URL for messages.
    name: String,
    exchange: Exchange,
    limit: Duration,
    /// Time on the monotonic clock, in nanoseconds.
    deadline: u64,
}

/// Sends all requests, at most `at_once` concurrently.
pub(super) fn send_all(requests: Vec<Request>, at_once: usize) -> Vec<Answered<Response>> {
    let mut answers: Vec<Option<Answered<Response>>> = requests.iter().map(|_| None).collect();

    let mut answer = |index: usize, answer| {
        if let Some(place) = answers.get_mut(index) {
            *place = Some(answer);
        }
    };

    let mut waiting: VecDeque<_> = requests.into_iter().enumerate().collect();
    let mut flights: Vec<Flight> = Vec::new();

    loop {
        while flights.len() < at_once
            && let Some((index, request)) = waiting.pop_front()
        {
            match Flight::begin(index, request) {
                Ok(flight) => flights.push(flight),
                Err(error) => answer(index, Err(error)),
            }
        }

        if flights.is_empty() {
            break;
        }

        let now = monotonic_clock::now();
        flights = flights
            .into_iter()
            .filter_map(|mut flight| match flight.step(now) {
                None => Some(flight),
                Some(done) => {
                    answer(flight.index, done);
                    None
                }
            })
            .collect();

        // A request that has ended makes room for the next one, which is started before waiting.
        if flights.len() < at_once && !waiting.is_empty() {
            continue;
        }

        wait(&flights);
    }

    let lost = || Err(Failure::NotSent.told("a request"));
    answers
        .into_iter()
        .map(|answer| answer.unwrap_or_else(lost))
        .collect()
}

/// Waits until a request can continue or reaches its deadline.
fn wait(flights: &[Flight]) {
    let Some(deadline) = flights.iter().map(|flight| flight.deadline).min() else {
        return;
    };

    let timer = monotonic_clock::subscribe_instant(deadline);
    let mut all: Vec<&Pollable> = vec![&timer];
    for flight in flights {
        flight.exchange.waits_for(&mut all);
    }
    poll::poll(&all);
}

impl Flight {
    fn begin(index: usize, request: Request) -> Answered<Self> {
        let prepared = Prepared::new(&request)?;
        let name = format!("{} {}", request.method, prepared.address.shown());

        let limit = time::limit(request.limit, Some(calls::remaining()));
        if limit.is_zero() {
            return Err(Failure::NotSent.told(&name));
        }

        let head =
            head::request(request.method, &prepared).map_err(|failure| failure.told(&name))?;
        let body = request.body;
        let at_most = request.at_most;
        let exchange =
            Exchange::begin(head, body, at_most).map_err(|failure| failure.told(&name))?;

        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let deadline = monotonic_clock::now().saturating_add(nanos);

        Ok(Self {
            index,
            name,
            exchange,
            limit,
            deadline,
        })
    }

    /// Continues as far as possible without waiting. Returns the result when the request has ended.
    /// The deadline is checked last: a response that has arrived counts.
    fn step(&mut self, now: u64) -> Option<Answered<Response>> {
        let answer = match self.exchange.step() {
            Some(answer) => answer,
            None if now >= self.deadline => Err(Failure::Late(self.limit)),
            None => return None,
        };
        Some(answer.map_err(|failure| failure.told(&self.name)))
    }
}
