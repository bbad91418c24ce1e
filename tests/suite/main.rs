//! Every test that needs real parts: one binary, a module a subject.
