//! What ordercal's tests share: generators of ordinary and hostile rows, the order promise as a check
//! that knows nothing of the library's own sorting, and the conformance suite every method goes through.

pub mod conformance;
pub mod hammer;
pub mod models;
pub mod promise;
pub mod rows;
