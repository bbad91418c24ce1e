//! Tables of facts and the findings they lead to, one for each question.

mod deadline;
mod gate;
mod loss;
mod next;
mod nodes;
mod outcome;
mod plan;
mod rule;
mod scene;
mod timing;
mod whole;
