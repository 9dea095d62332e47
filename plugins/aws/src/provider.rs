//! The provider itself: takes the host's calls and hands them on. No rule is made here.
