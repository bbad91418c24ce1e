//! Tests of the findings of `explain`. Each part of the answer has its own file.

mod chain_tests;
mod clock_tests;
mod deadline_tests;
mod explain_scene;
mod gate_tests;
mod loss_tests;
mod next_tests;
mod nodes_tests;
mod outcome_tests;
mod plan_tests;
mod rule_tests;
mod timing_tests;
mod whole_tests;
