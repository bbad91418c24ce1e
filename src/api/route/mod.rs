//! The table of the routes, and the answer of each.

mod act_route;
mod answer;
mod bulk_lines;
mod doctor_route;
mod given_parameters;
mod idempotent;
mod logs_route;
mod pages;
mod parameter;
mod remote_route;
mod request_body;
mod route_table;
mod single_job;
mod verb_route;

pub(super) use answer::answer;
pub(super) use given_parameters::{check_parameters, route_of};
pub(super) use parameter::{ParamKind, Parameter};
pub(super) use route_table::{AnswerShape, ROUTES, ReportKind, Route, RouteAccess, RouteAction};
pub(super) use verb_route::json_response;
