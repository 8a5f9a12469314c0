drop table reconcile_passes;
drop table operator_actions;
