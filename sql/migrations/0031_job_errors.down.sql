drop table job_errors;
