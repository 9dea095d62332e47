//! Transport protocols.

/// Transport protocol of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // named as in Kubernetes
pub enum Transport {
    #[default]
    Tcp,
    Udp,
    Sctp,
}

impl Transport {
    /// Returns the name that Kubernetes uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    /// Parses the name that Kubernetes uses; returns `None` for an unknown protocol.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Tcp, Self::Udp, Self::Sctp]
            .into_iter()
            .find(|transport| transport.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_spelled_as_in_kubernetes() {
        for text in ["TCP", "UDP", "SCTP"] {
            assert_eq!(Transport::parse(text).map(Transport::as_str), Some(text));
        }
        for text in ["", "tcp", "QUIC"] {
            assert_eq!(Transport::parse(text), None, "{text}");
        }
    }
}
