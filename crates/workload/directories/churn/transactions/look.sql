select balance, note from account where id = :id;
